package probe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/lockmesh/mesh"
	"github.com/lockmesh/mesh/probe"
)

// A program starts its node, answers probes at once, and is ready when its node is.
func Example() {
	node, err := mesh.Start(nil, mesh.WithFound(), mesh.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	mux := http.NewServeMux()
	mux.Handle("GET /livez", probe.Live(node))
	mux.Handle("GET /readyz", probe.Ready(node))
	server := httptest.NewServer(mux)
	defer server.Close()

	if err := node.WaitReady(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"/livez", "/readyz"} {
		answer, err := http.Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		var body struct{ Role, Phase string }
		_ = json.NewDecoder(answer.Body).Decode(&body)
		answer.Body.Close()
		fmt.Println(path, answer.StatusCode, body.Role, body.Phase)
	}
	// Output:
	// /livez 200 core serving
	// /readyz 200 core serving
}
