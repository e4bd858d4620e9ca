package browsertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// hostile does harm wherever a page takes it for markup, script or style.
const hostile = `</script><script>window.harm=1</script><img src="http://127.0.0.1:9/" onerror="window.harm=1">` +
	`'"--><svg onload=window.harm=1></style></title><!--` + "${window.harm=1}`\u202e\u2028\x00"

func TestHostileTextsDoNotRun(t *testing.T) {
	tl := makeSample(sampleOptions{
		Seed: 9, Hosts: 5, Shards: 4, Workers: 3, Keys: []string{hostile, "\xff\x00", "__proto__", "constructor", "a\nb"},
		Duration: 40 * time.Second, Pace: 100 * time.Millisecond, Faults: 4 * time.Second, Violate: true, Text: hostile,
	})
	tl.Repeat += hostile
	p := open(t, browser(t), tl)
	p.press("v?" + kb.Escape)
	for _, kind := range []timeline.Kind{timeline.Called, timeline.Held, timeline.Note, timeline.Fault, timeline.Refused, timeline.News, timeline.Lost} {
		i := slices.IndexFunc(tl.Moments, func(m timeline.Moment) bool { return m.Kind == kind })
		if i < 0 {
			t.Fatalf("no %v", kind)
		}
		ask[bool](p, fmt.Sprintf("timelinePage.choose(%d, true), true", i+1))
		p.settle()
		if got := p.chosen(); got != i+1 {
			t.Errorf("moment %d is not chosen, but %d", i+1, got)
		}
	}
	p.search("<img")
	if found := ask[string](p, `document.getElementById("found").value`); found == "" || found == "0 found" {
		t.Errorf("the search for a hostile text says %q", found)
	}
	if ask[bool](p, `"harm" in window`) {
		t.Error("a text was run")
	}
	for _, name := range []string{"img", "svg", "iframe"} {
		if n := ask[int](p, fmt.Sprintf(`document.querySelectorAll(%q).length`, name)); n > 0 {
			t.Errorf("%d elements %s", n, name)
		}
	}
	if n := ask[int](p, `document.scripts.length`); n != 2 {
		t.Errorf("%d scripts", n)
	}
	if title := ask[string](p, "document.title"); !strings.Contains(title, "</script><script>") {
		t.Errorf("the title is %q", title)
	}
}

// Were a text ever to become a script, the page's policy would not let it run, nor load
// anything.
func TestThePolicyHolds(t *testing.T) {
	p := open(t, browser(t), calm())
	got := ask[[]string](p, `new Promise(done => {
		const refused = [];
		document.addEventListener("securitypolicyviolation", e => {
			refused.push(e.effectiveDirective);
			if (refused.length === 3) done(refused.sort());
		});
		const script = document.createElement("script");
		script.textContent = "window.harm = 1";
		document.body.append(script);
		const image = document.createElement("img");
		image.src = "http://127.0.0.1:9/";
		document.body.append(image);
		const style = document.createElement("style");
		style.textContent = "body { color: red }";
		document.body.append(style);
	})`)
	if want := []string{"img-src", "script-src-elem", "style-src-elem"}; !slices.Equal(got, want) {
		t.Errorf("the policy refused %q, want %q", got, want)
	}
	if ask[bool](p, `"harm" in window`) {
		t.Error("a script that was not the page's ran")
	}
	p.forgive("Content Security Policy")
	p.forgive("http://127.0.0.1:9/") // it was asked for, and refused
}
