package browsertest

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/lockmesh/mesh/simulate/timeline"
)

const patience = 2 * time.Minute // for one test; none takes more than seconds

// browser starts one browser for all tabs of a test. Without Chromium the test fails.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); path == "" && err == nil {
			path = found
		}
	}
	if path == "" {
		t.Fatal("this test needs Chromium or Chrome, and there is none in PATH or named by $CHROMIUM")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx,
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"),
	)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("%s does not start: %v", path, err)
	}
	return ctx
}

// tab is one page in a browser, and what it did that it should not.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	noises []string
}

// open writes the timeline as a page, and opens it. When the test ends, it must have
// been quiet.
func open(t *testing.T, browser context.Context, tl *timeline.Timeline) *tab {
	t.Helper()
	p := newTab(t, browser)
	path := filepath.Join(t.TempDir(), "run.html")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := tl.WriteHTML(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	address := (&url.URL{Scheme: "file", Path: path}).String()
	p.listen(address)
	t.Cleanup(func() {
		for _, noise := range p.heard() {
			t.Errorf("the page is not quiet: %s", noise)
		}
	})
	p.do(chromedp.EmulateViewport(1366, 768), chromedp.Navigate(address))
	p.settle()
	return p
}

func newTab(t *testing.T, browser context.Context) *tab {
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	return &tab{t: t, ctx: ctx}
}

// listen notes errors, whatever is written to the console, and requests for anything but
// the page itself.
func (p *tab) listen(address string) {
	p.t.Helper()
	noise := func(format string, args ...any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.noises = append(p.noises, fmt.Sprintf(format, args...))
	}
	err := chromedp.Listen(p.ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			noise("exception: %s", cmp.Or(ev.ExceptionDetails.Exception.Description, ev.ExceptionDetails.Text))
		case *runtime.EventConsoleAPICalled:
			noise("console: %s %+v", ev.Type, ev.Args)
		case *log.EventEntryAdded:
			noise("log: %s: %s", ev.Entry.Level, ev.Entry.Text)
		case *network.EventRequestWillBeSent:
			if before, _, _ := strings.Cut(ev.Request.URL, "#"); before != address && !strings.HasPrefix(before, "data:") {
				noise("request: %s", ev.Request.URL)
			}
		}
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *tab) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.noises...)
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// settle waits until the page has drawn what it wants to draw.
func (p *tab) settle() {
	p.t.Helper()
	ask[bool](p, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// ask evaluates an expression in the page, and waits if it is a promise.
func ask[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// press types keys, as a reader does.
func (p *tab) press(keys string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys))
	p.settle()
}

// search types words into an empty search field.
func (p *tab) search(words string) {
	p.t.Helper()
	ask[string](p, `document.getElementById("search").value = ""`)
	p.do(chromedp.Click(chromedp.CSS("#search")))
	p.press(words)
}

// click clicks the place of a moment in the picture.
func (p *tab) click(id int) {
	p.t.Helper()
	at := ask[[]float64](p, fmt.Sprintf("timelinePage.where(%d)", id))
	p.do(chromedp.MouseClickXY(at[0], at[1]))
	p.settle()
}

// near shows a short time around a moment, so that it stands alone.
func (p *tab) near(at time.Duration) {
	p.t.Helper()
	ask[bool](p, fmt.Sprintf("timelinePage.show(%d, %d), true", at-4*time.Millisecond, at+4*time.Millisecond))
	p.settle()
}

func (p *tab) chosen() int { return ask[int](p, "timelinePage.chosen()") }
func (p *tab) order() []int {
	return ask[[]int](p, "timelinePage.order()")
}

func (p *tab) listed(list string) []int {
	return ask[[]int](p, fmt.Sprintf(`Array.from(document.querySelectorAll("#%s [data-id]"), e => Number(e.dataset.id))`, list))
}

// forgive forgets the noises that have these words in them, which a test has caused on
// purpose. There must be some.
func (p *tab) forgive(words string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.noises[:0]
	for _, noise := range p.noises {
		if !strings.Contains(noise, words) {
			kept = append(kept, noise)
		}
	}
	if len(kept) == len(p.noises) {
		p.t.Errorf("nothing was said of %q", words)
	}
	p.noises = kept
}
