package probe_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/probe"
	"github.com/lockmesh/mesh/simulate"
)

// ask asks a probe, and returns its status and what its body says.
func ask(t *testing.T, h http.Handler) (int, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return w.Code, body
}

func TestProbes(t *testing.T) {
	quiet := mesh.WithLogger(slog.New(slog.DiscardHandler))
	// The other entry does not answer: the node lives, and is not ready.
	n, err := mesh.Start([]string{"127.0.0.1:1", "127.0.0.1:2"}, mesh.WithBind("127.0.0.1:0"), mesh.WithName("ann"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if code, body := ask(t, probe.Live(n)); code != 200 || body["ok"] != true || body["node"] != "ann" {
		t.Errorf("live: %d %v", code, body)
	}
	code, body := ask(t, probe.Ready(n))
	if why, _ := body["error"].(string); code != 503 || body["ok"] != false || body["phase"] != "waiting" || body["settled"] != false || !strings.Contains(why, "not founded") {
		t.Errorf("ready: %d %v", code, body)
	}
	if _, shown := body["quietUntil"]; shown {
		t.Errorf("a time that is none: %v", body)
	}
	if code, body := ask(t, probe.Started(n)); code != 503 || body["unfounded"] != false {
		t.Errorf("started, and at no entry: %d %v", code, body)
	}
	n.Close()
	for name, h := range map[string]http.Handler{"live": probe.Live(n), "ready": probe.Ready(n), "started": probe.Started(n), "no node": probe.Ready(nil), "the zero node": probe.Live(new(mesh.Node))} {
		if code, body := ask(t, h); code != 503 || body["error"] != mesh.ErrClosed.Error() {
			t.Errorf("%s after Close: %d %v", name, code, body)
		}
	}

	n, err = mesh.Solo(quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if code, body := ask(t, probe.Ready(n)); code != 200 || body["role"] != "core" || body["phase"] != "serving" || body["ready"] != true || body["safeToStop"] != false {
		t.Errorf("a mesh of one: %d %v", code, body)
	}
}

// The first process of an ordered roll-out is started, though it is not ready: the platform starts the second one. If the second
// one is silent, it may know of a mesh, and the first is not started.
func TestStarted(t *testing.T) {
	for _, silent := range []bool{false, true} {
		w := simulate.New(simulate.Options{})
		defer w.Close()
		first, second := w.Host("first"), w.Host("second") // on which no process runs
		if silent {
			w.Net.Isolate(second.Name())
		}
		var n *mesh.Node
		first.Boot("node", func(ctx context.Context) {
			var err error
			n, err = mesh.StartContext(ctx, []string{"first:7300", "second:7300"}, mesh.WithBind(":7300"), mesh.WithLogger(simulate.Logger(ctx)))
			if err != nil {
				t.Error(err)
			}
		})
		started := func() bool {
			code, body := ask(t, probe.Started(n))
			if body["unfounded"] != (code == 200) || body["settled"] != false {
				t.Errorf("the first, where the second is silent: %v: %d %v", silent, code, body)
			}
			return code == 200
		}
		if err := w.RunUntil(started, 10*time.Second); (err != nil) != silent {
			t.Errorf("the first is started, where the second is silent: %v: %v", silent, err)
		}
		if code, body := ask(t, probe.Ready(n)); code != 503 {
			t.Errorf("and ready: %d %v", code, body)
		}
	}
	n, err := mesh.Solo(mesh.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if code, body := ask(t, probe.Started(n)); code != 200 || body["unfounded"] != false {
		t.Errorf("a mesh of one: %d %v", code, body)
	}
}
