package mesh_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/simulate"
)

// Promise: C5, C7: all processes of a fleet end at once, the time of day goes back, and the fleet starts again with
// shorter leases. By the state directories of its core no key is granted before the leases of the mesh before are
// over, and tokens go on above those of that mesh. Without them neither holds.
func TestStateDirOutlivesTheMesh(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		w := simulate.New(simulate.Options{Seed: 11})
		defer w.Close()
		var token uint64
		hosts := []string{"h1", "h2", "h3"}
		run := func(ttl time.Duration, got func(at time.Duration)) {
			for _, host := range hosts {
				w.Host(host).Go("start", func(ctx context.Context) {
					opts := []mesh.Option{mesh.WithName(host), mesh.WithMaxTTL(ttl)}
					if keeps {
						opts = append(opts, mesh.WithStateDir("/var/lib/"+host))
					}
					n, err := mesh.StartContext(ctx, hosts, opts...)
					if err == nil && host == "h1" {
						var l *mesh.Lock
						if l, err = n.Lock(ctx, "k"); err == nil {
							token = l.Token()
							got(simulate.Now(ctx))
						}
					}
					if err != nil && ctx.Err() == nil {
						w.Fail(err)
					}
				})
			}
		}
		granted := time.Duration(0)
		run(time.Minute, func(at time.Duration) { granted = at })
		if err := w.RunUntil(func() bool { return granted != 0 }, 2*time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := w.Run(30 * time.Second); err != nil {
			t.Fatal(err)
		}
		before := token
		for _, host := range hosts {
			w.Host(host).Crash()
			w.Host(host).Clock.Step(-24 * time.Hour)
			w.Host(host).Restart()
		}
		crashed := w.Now()
		granted = 0
		run(10*time.Second, func(at time.Duration) { granted = at })
		if err := w.RunUntil(func() bool { return granted != 0 }, 2*time.Minute); err != nil {
			t.Fatal(err)
		}
		if keeps && (granted-crashed < time.Minute || granted-crashed > 70*time.Second || token <= before) {
			t.Errorf("granted %v after all crashed, with token %d after %d", granted-crashed, token, before)
		}
		if !keeps && (granted-crashed > 20*time.Second || token > before) {
			t.Errorf("without state directories: granted %v after all crashed, with token %d after %d: what does this test show?", granted-crashed, token, before)
		}
	}
}

// What is wrong with a state directory is an error at once, and the directory stays as it is.
func TestStateDir(t *testing.T) {
	dir := t.TempDir()
	n, err := mesh.Solo(mesh.WithStateDir(dir), mesh.WithMeshName("blue"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mesh.Solo(mesh.WithStateDir(dir)); !errors.Is(err, mesh.ErrInvalidOption) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("while it is in use: %v", err)
	}
	path := filepath.Join(dir, "state")
	until := time.Now().Add(30 * time.Second)
	for b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), "blue"); b, err = os.ReadFile(path) {
		if time.Now().After(until) {
			t.Fatalf("the file is %q, %v", b, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := mesh.Solo(mesh.WithStateDir(dir), mesh.WithMeshName("red")); !errors.Is(err, mesh.ErrForeignMesh) || !strings.Contains(err.Error(), "blue") {
		t.Errorf("of another mesh: %v", err)
	}
	again, err := mesh.Solo(mesh.WithStateDir(dir))
	if err != nil {
		t.Fatalf("of this mesh: %v", err)
	}
	again.Close()

	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := mesh.Solo(mesh.WithStateDir(dir)); !errors.Is(err, mesh.ErrInvalidOption) || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("damaged: %v", err)
	}
	if left, err := os.ReadFile(path); err != nil || string(left) != string(b) {
		t.Errorf("it was changed: %q, %v", left, err)
	}
	if _, err := mesh.Solo(mesh.WithStateDir(path)); !errors.Is(err, mesh.ErrInvalidOption) {
		t.Errorf("a file: %v", err)
	}
}
