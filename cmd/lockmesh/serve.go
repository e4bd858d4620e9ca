package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/lockhttp"
	"github.com/lockmesh/mesh/probe"
)

const serveUsage = `usage: lockmesh serve [flags]

Runs a node that serves locks and resources over HTTP, for processes in other languages, its guests: see package lockhttp. It also
answers GET /livez and GET /readyz. At SIGTERM or SIGINT the node leaves the mesh, and its guests go on with other servers.

  lockmesh serve -seeds 10.0.0.1,10.0.0.2,10.0.0.3 -listen 10.0.0.1:7380

The HTTP port has no access control: make it reachable for the fleet alone.
The exit status is 0 after such a signal, 1 if the node left something behind (see mesh.Node.Leave), as the second node of a core
of three does if it leaves while the first is away, or if it ended by itself, and 2 if it could not start.

flags:
`

// serveFlags are the flags of lockmesh serve.
type serveFlags struct {
	listen, seeds, bind, name, mesh, zone, state string
	ca, cert, key                                string
	lease, leave                                 time.Duration
	verbose                                      bool
}

// runServe is lockmesh serve.
func runServe(ctx context.Context, args []string, c console) int {
	var f serveFlags
	set := flag.NewFlagSet("lockmesh serve", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&f.listen, "listen", "127.0.0.1:7380", "the `address` at which HTTP is served")
	set.StringVar(&f.seeds, "seeds", "", "the `entries` of the core, separated by commas; if it is empty, the node founds a mesh of one, on loopback")
	set.StringVar(&f.bind, "bind", "", "the `address` at which the node listens for other nodes (see mesh.WithBind)")
	set.StringVar(&f.name, "name", "", "the `name` of the node (see mesh.WithName)")
	set.StringVar(&f.mesh, "mesh", "", "the `name` of the mesh (see mesh.WithMeshName)")
	set.StringVar(&f.zone, "zone", "", "the `zone` of the node (see mesh.WithZone)")
	set.StringVar(&f.state, "state", "", "the `directory` in which the node keeps what the mesh must not forget (see mesh.WithStateDir)")
	set.StringVar(&f.ca, "ca", "", "with TLS between nodes: the `file` with the authorities that vouch for nodes, in PEM")
	set.StringVar(&f.cert, "cert", "", "with TLS between nodes: the `file` with the node's certificate, in PEM")
	set.StringVar(&f.key, "key", "", "with TLS between nodes: the `file` with its key, in PEM")
	set.DurationVar(&f.lease, "lease", 0, "how `long` the leases of guests last, at most the mesh's MaxTTL (see mesh.WithMaxTTL); zero: as long as those of the node")
	set.DurationVar(&f.leave, "leave", 20*time.Second, "how `long` a node that leaves waits for its locks to be unlocked; then it may take another 20s to hand over to other nodes")
	set.BoolVar(&f.verbose, "v", false, "also print what is merely informative in the log of the node; warnings and errors are always printed")
	wrong := func(err error) int {
		fmt.Fprintln(c.err, "lockmesh serve:", err)
		return exitUsage
	}
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		explain(c.out, serveUsage, set)
		return exitOK
	case err != nil:
		return wrong(err)
	case set.NArg() > 0:
		return wrong(fmt.Errorf("unexpected argument %q", set.Arg(0)))
	case f.lease < 0, f.leave < 0:
		return wrong(errors.New("-lease and -leave cannot be negative"))
	case f.lease != 0 && f.lease < time.Second:
		return wrong(fmt.Errorf("-lease %v: it must be at least 1s, or zero", f.lease))
	}
	opts, err := f.options(c)
	if err != nil {
		return wrong(err)
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return wrong(fmt.Errorf("-listen: %w", err))
	}
	defer listener.Close()
	node, err := f.start(opts)
	if err != nil {
		return wrong(err)
	}
	defer node.Close()
	if err := f.serve(ctx, listener, node, c); err != nil {
		fmt.Fprintln(c.err, "lockmesh serve:", err)
		return exitFailed
	}
	return exitOK
}

// options returns what the flags say to the node.
func (f *serveFlags) options(c console) (opts []mesh.Option, err error) {
	for _, o := range []struct {
		value string
		with  func(string) mesh.Option
	}{
		{f.bind, mesh.WithBind}, {f.name, mesh.WithName}, {f.mesh, mesh.WithMeshName}, {f.zone, mesh.WithZone}, {f.state, mesh.WithStateDir},
	} {
		if o.value != "" {
			opts = append(opts, o.with(o.value))
		}
	}
	secure, err := loadTLS(f.ca, f.cert, f.key)
	if err != nil {
		return nil, err
	}
	if secure != nil {
		opts = append(opts, mesh.WithTLS(secure))
	}
	level := slog.LevelWarn
	if f.verbose {
		level = slog.LevelInfo
	}
	return append(opts, mesh.WithLogger(slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: level})))), nil
}

func (f *serveFlags) start(opts []mesh.Option) (*mesh.Node, error) {
	if f.seeds == "" {
		return mesh.Solo(opts...)
	}
	return mesh.Start(strings.Split(f.seeds, ","), opts...)
}

// serve serves until ctx ends, or the node.
func (f *serveFlags) serve(ctx context.Context, listener net.Listener, node *mesh.Node, c console) error {
	probes := http.NewServeMux()
	probes.Handle("GET /livez", probe.Live(node))
	probes.Handle("GET /readyz", probe.Ready(node))
	guests := lockhttp.Handler(node, lockhttp.Options{Lease: f.lease})
	route := func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := probes.Handler(r); pattern != "" {
			probes.ServeHTTP(w, r)
		} else {
			guests.ServeHTTP(w, r) // behind no ServeMux, which would redirect a path that guests refuses to another key
		}
	}
	server := &http.Server{Handler: http.HandlerFunc(route), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(c.out, "node %s serves http://%s\n", node.Name(), listener.Addr())
	select {
	case err := <-served:
		return err
	case <-node.Done():
		_ = server.Close()
		return node.Err()
	case <-ctx.Done():
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.leave)
	defer cancel()
	err := node.Leave(within) // requests are told to go to other servers
	_ = server.Close()
	return err
}
