// Package probe answers the probes of a platform, such as Kubernetes, about a node of a mesh.
//
//	node, err := mesh.Start(seeds) // returns at once, so that probes are answered before there is a mesh
//	…
//	http.Handle("GET /livez", probe.Live(node))
//	http.Handle("GET /readyz", probe.Ready(node)) // or Started
//
// An answer has the status 200 or 503, and a JSON object: "ok"; "error", if "ok" is false; "node", the node's name; and the fields of
// [mesh.Health], such as "role", "phase", "settled" and "waiting". Every request is answered alike, whatever its method, and at once.
// The answers name nodes and entries: keep them from the public.
package probe

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/lockmesh/mesh"
)

// Live answers whether the process should go on: 200 unless the node has ended, or one of its loops hangs: see
// [mesh.Node.Live]. It does not depend on other nodes: the last survivor of a core is the only one that remembers, and
// must not be restarted because the others are gone. Probe it repeatedly: loops are looked after from the first request on.
func Live(n *mesh.Node) http.Handler {
	return handler{n, (*mesh.Node).Live}
}

// Ready answers whether the node has caught up with its mesh once ([mesh.Health].Settled), and has not ended: 200 if so. The answer stays 200
// while keys cannot be locked, in quiet time or without a majority: to take this process out of service would not help.
//
// A mesh is founded by all of its core, so none of the core's nodes is ready before all have started. Where a platform starts the next
// process only when those before are ready, use Started.
func Ready(n *mesh.Node) http.Handler {
	return handler{n, func(n *mesh.Node) error { return settled(n, false) }}
}

// Started answers like Ready, but with 200 also while the mesh is not founded for the sole reason that other processes of the core do not
// run yet ([mesh.Health].Unfounded). It is the readiness probe for a platform that starts, and restarts, one process after the other: the
// first process is ready, so the platform starts the second. A node that restarts in a mesh that lives is not ready before it has caught up
// with that mesh, even if it is cut off from all others, so that a rolling restart waits for it.
//
// A StatefulSet of the core needs Started, if its podManagementPolicy is OrderedReady, which is the default; with Parallel, which starts all
// pods at once and still restarts one at a time, Ready does as well. With either policy the pods need a headless service with
// publishNotReadyAddresses: true, for without it the name of a pod that is not ready cannot be looked up.
func Started(n *mesh.Node) http.Handler {
	return handler{n, func(n *mesh.Node) error { return settled(n, true) }}
}

// settled returns nil if a node has caught up with its mesh once; or also, as unfounded says, if it waits for processes that are not there.
func settled(n *mesh.Node, unfounded bool) error {
	if err := n.Err(); err != nil {
		return err
	}
	if h := n.Health(); !h.Settled && !(unfounded && h.Unfounded) {
		return fmt.Errorf("%w: %v", mesh.ErrNotFounded, h.Phase)
	}
	return nil
}

// handler answers with what check finds.
type handler struct {
	node  *mesh.Node
	check func(*mesh.Node) error
}

// answer is what a body says.
type answer struct {
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	Node  string `json:"node"`
	mesh.Health
}

// list is s, as JSON that is an array also when there is nothing in it.
func list[T any](s []T) []T { return append([]T{}, s...) }

// ServeHTTP implements http.Handler.
func (h handler) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	a, status := answer{OK: true, Node: h.node.Name(), Health: h.node.Health()}, http.StatusOK
	a.NoMajority, a.UnderReplicated, a.Waiting = list(a.NoMajority), list(a.UnderReplicated), list(a.Waiting)
	if err := h.check(h.node); err != nil {
		a.OK, a.Error, status = false, err.Error(), http.StatusServiceUnavailable
	}
	body, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // who asked may have gone
}
