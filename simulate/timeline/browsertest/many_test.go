package browsertest

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Pages of many moments draw only what can be seen, once for each picture of the screen,
// and nothing while nothing changes.
func TestManyMoments(t *testing.T) {
	tl := makeSample(sampleOptions{
		Seed: 3, Hosts: 7, Shards: 16, Workers: 4, Duration: 5 * time.Minute,
		Pace: 150 * time.Millisecond, Faults: 5 * time.Second, Moments: 50_000,
	})
	if len(tl.Moments) != 50_000 {
		t.Fatalf("%d moments", len(tl.Moments))
	}
	p := open(t, browser(t), tl)
	p.do(chromedp.Click(chromedp.CSS(`[data-group="routine"]`)))
	p.settle()
	if got := len(p.order()); got != len(tl.Moments) {
		t.Fatalf("%d moments are shown", got)
	}
	frames := func() int { return ask[int](p, "timelinePage.stats.frames") }

	if arrows, marks := ask[int](p, "timelinePage.stats.arrows"), ask[int](p, "timelinePage.stats.marks"); arrows < 20_000 || marks > 7*21*250 {
		t.Errorf("the whole run: %d frames in sight, %d marks drawn one by one", arrows, marks)
	}
	before := frames()
	ask[bool](p, `(() => { for (let i = 0; i < 500; i++) timelinePage.show(i * 1e7, i * 1e7 + 1e9); return true; })()`)
	p.settle()
	if drawn := frames() - before; drawn != 1 {
		t.Errorf("500 moves at once drew %d pictures, want 1", drawn)
	}
	if arrows := ask[int](p, "timelinePage.stats.arrows"); arrows == 0 || arrows > 1500 {
		t.Errorf("in one second of the run, %d frames are in sight", arrows)
	}
	before = frames()
	ask[bool](p, `(async () => {
		for (let i = 0; i < 40; i++) {
			timelinePage.show(i * 1e8, 5e10 - i * 1e8);
			await new Promise(requestAnimationFrame);
		}
		return true;
	})()`)
	p.settle()
	if drawn := frames() - before; drawn < 20 || drawn > 41 {
		t.Errorf("40 moves, each with its own picture, drew %d", drawn)
	}
	before = frames()
	for range 10 {
		p.settle()
	}
	if drawn := frames() - before; drawn != 0 {
		t.Errorf("%d pictures were drawn while nothing changed", drawn)
	}
}
