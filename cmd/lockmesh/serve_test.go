package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestServeRefusesFlags(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-help"}, exitOK, "usage: lockmesh serve"},
		{[]string{"now"}, exitUsage, `unexpected argument "now"`},
		{[]string{"-lease", "-1s"}, exitUsage, "cannot be negative"},
		{[]string{"-lease", "500ms"}, exitUsage, "at least 1s"},
		{[]string{"-leave", "-1s"}, exitUsage, "cannot be negative"},
		{[]string{"-lease", "soon"}, exitUsage, "-lease"},
		{[]string{"-listen", "nowhere:http:"}, exitUsage, "-listen"},
		{[]string{"-ca", "ca.pem"}, exitUsage, "-ca, -cert and -key go together"},
		{[]string{"-listen", "127.0.0.1:0", "-seeds", "a:b:c"}, exitUsage, "a:b:c"},
	} {
		code, out, err := lockmesh(t, append([]string{"serve"}, tt.args...)...)
		if code != tt.code || !strings.Contains(out+err, tt.says) {
			t.Errorf("lockmesh serve %q: code %d\n%s\n%s\nwant %d and %q", tt.args, code, out, err, tt.code, tt.says)
		}
	}
}

// A mesh of one serves guests and probes, until the process is told to end.
func TestServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	ended := make(chan int, 1)
	var errs strings.Builder
	go func() {
		ended <- run(ctx, []string{"serve", "-listen", "127.0.0.1:0", "-name", "one", "-lease", "2s"}, console{out: in, err: &errs})
		in.Close()
	}()
	said, err := bufio.NewReader(out).ReadString('\n')
	_, url, found := strings.Cut(strings.TrimSpace(said), "node one serves ")
	if err != nil || !found {
		t.Fatalf("%q, %v", said, err)
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/livez", "", 200, `"ok": true`},
		{"POST", "/lock", `{"node_id":"ann","type":"lock","resource_id":"k","wait_ms":600}`, 200, `"state":"running"`},
		{"GET", "/readyz", "", 200, `"settled": true`},
		{"POST", "/unlock", `{"node_id":"ann","type":"lock","resource_id":"k"}`, 200, `"state":"done"`},
		{"PUT", "/locks/a//b?node_id=ann", "", 400, `"code":"invalid"`},
		{"PUT", "/locks/a%2F%2Fb?node_id=ann", "", 200, `"state":"running"`},
		{"GET", "/lock?node_id=ann&type=lock&resource_id=a/b", "", 200, `"state":"none"`},
		{"POST", "/livez", "", 404, "not found"},
	} {
		req, err := http.NewRequest(tt.method, url+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != tt.status || !strings.Contains(string(answer), tt.want) {
			t.Errorf("%s %s: %d %s, %v", tt.method, tt.path, res.StatusCode, answer, err)
		}
	}
	stop()
	if code := <-ended; code != exitOK {
		t.Errorf("it ends with %d: %s", code, &errs)
	}
}
