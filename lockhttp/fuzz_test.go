package lockhttp

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lockmesh/mesh"
)

// No request makes the handler panic; what it cannot read is answered as such, and what it reads is in range.
func FuzzRequest(f *testing.F) {
	f.Add(`{"node_id":"ann","type":"lock","resource_id":"k"}`, "node_id=ann&type=pull&resource_id=k&wait_ms=1")
	f.Add(`{"node_id":"ann","type":"semaphore","resource_id":"k","n":2,"capacity":3,"request_id":"one"}`, "node_id=ann&n=1&capacity=2")
	f.Add(`{"node_id":"ann","locks":[{"type":"update","resource_id":"k","version":"7","token":9}]}`, "try=true&token=1")
	h := Handler(new(mesh.Node), Options{})
	f.Fuzz(func(t *testing.T, body, query string) {
		for _, r := range []*http.Request{
			httptest.NewRequest("POST", "/lock", strings.NewReader(body)), httptest.NewRequest("POST", "/unlock", strings.NewReader(body)),
			httptest.NewRequest("POST", "/renew", strings.NewReader(body)), httptest.NewRequest("POST", "/release", strings.NewReader(body)),
			{Method: "GET", URL: &url.URL{Path: "/lock", RawQuery: query}}, {Method: "DELETE", URL: &url.URL{Path: "/lock", RawQuery: query}},
			{Method: "PUT", URL: &url.URL{Path: "/locks/k", RawQuery: query}}, {Method: "GET", URL: &url.URL{Path: "/refs", RawQuery: query}},
		} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusBadRequest && w.Code != http.StatusServiceUnavailable {
				t.Errorf("%s %v %q: %d", r.Method, r.URL, body, w.Code)
			}
		}
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		q, bad := fromQuery(values)
		if bad != nil {
			return
		}
		if a, bad := q.parse(); bad == nil {
			weight, capacity := a.Share()
			if a.Key == "" || a.Tag == "" || weight < 1 || weight > capacity {
				t.Errorf("%q is %+v", query, a)
			}
		}
	})
}
