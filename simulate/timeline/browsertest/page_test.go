package browsertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// Pages of all sorts of runs draw themselves without an error and without a request:
// open looks for both.
func TestPagesAreQuiet(t *testing.T) {
	b := browser(t)
	for name, tl := range map[string]*timeline.Timeline{
		"empty": {}, "one host": {Title: "x", Hosts: []string{"a"}, Duration: time.Second},
		"calm": calm(), "violated": violated(),
		"wide": makeSample(sampleOptions{Seed: 5, Hosts: 32, Shards: 16, Workers: 1, Duration: 10 * time.Second, Pace: time.Second, Faults: 2 * time.Second}),
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, b, tl)
			p.press("+-0tvc?" + kb.Escape + kb.ArrowRight + kb.ArrowUp + kb.ArrowDown + kb.ArrowLeft + kb.Escape)
			facts := ask[string](p, `document.getElementById("facts").innerText`)
			if want := fmt.Sprintf("seed %d", tl.Seed); !strings.Contains(facts, want) {
				t.Errorf("the page's facts are %q, without %q", facts, want)
			}
			if want := fmt.Sprintf("%d host", len(tl.Hosts)); !strings.Contains(facts, want) {
				t.Errorf("the page's facts are %q, without %q", facts, want)
			}
			verdict := ask[string](p, `document.getElementById("verdict").innerText`)
			if failed := name == "violated"; failed != strings.HasPrefix(verdict, "failed at") {
				t.Errorf("the verdict is %q", verdict)
			}
			if n := ask[int](p, "timelinePage.stats.frames"); n == 0 {
				t.Error("nothing was drawn")
			}
		})
	}
}

// What TestPagesAreQuiet and others rely on: errors and requests are noticed.
func TestNoiseIsNoticed(t *testing.T) {
	p := newTab(t, browser(t))
	p.listen("about:blank")
	p.do(chromedp.Navigate("about:blank"))
	if heard := p.heard(); len(heard) > 0 {
		t.Errorf("an empty page makes noise: %q", heard)
	}
	ask[bool](p, `console.error("one"), setTimeout(() => { throw new Error("two") }), fetch("http://127.0.0.1:9/three").catch(() => true)`)
	p.settle()
	heard := strings.Join(p.heard(), "\n")
	for _, want := range []string{"console: error", "exception: Error: two", "request: http://127.0.0.1:9/three"} {
		if !strings.Contains(heard, want) {
			t.Errorf("%q was not noticed: %s", want, heard)
		}
	}
}

// lonely finds a hold with a chain of causes, near which nothing else happens at its host.
func lonely(t *testing.T, tl *timeline.Timeline) timeline.Moment {
	t.Helper()
	for _, m := range tl.Moments {
		near := func(o timeline.Moment) bool {
			return o.ID != m.ID && o.Host == m.Host && !tl.Routine(&o) && o.Kind != timeline.Sent && o.Kind != timeline.Arrived && max(o.At-m.At, m.At-o.At) < 4*time.Millisecond
		}
		if m.Kind == timeline.Held && len(tl.Chain(m.ID)) > 5 && !slices.ContainsFunc(tl.Moments, near) {
			return m
		}
	}
	t.Fatal("no hold stands alone")
	return timeline.Moment{}
}

func TestAClickShowsWhatLedToAMoment(t *testing.T) {
	tl := violated()
	p := open(t, browser(t), tl)
	m := lonely(t, tl)
	p.near(m.At)
	p.click(m.ID)
	if got := p.chosen(); got != m.ID {
		t.Fatalf("a click on moment %d chose %d", m.ID, got)
	}
	chain := tl.Chain(m.ID)
	if got := ask[[]int](p, "timelinePage.chain()"); !slices.Equal(got, chain) {
		t.Errorf("the page's chain is %v, want %v", got, chain)
	}
	nearestFirst := slices.Clone(chain[:len(chain)-1])
	slices.Reverse(nearestFirst)
	if got := p.listed("chain"); !slices.Equal(got, nearestFirst) {
		t.Errorf("the panel lists %v, want %v", got, nearestFirst)
	}
	var effects []int
	for _, o := range tl.Moments {
		if o.Cause == m.ID {
			effects = append(effects, o.ID)
		}
	}
	if got := p.listed("effects"); !slices.Equal(got[:min(len(got), len(effects))], effects) || len(effects) == 0 {
		t.Errorf("the panel says that it led to %v, want %v", got, effects)
	}
	if hash := ask[string](p, "location.hash"); hash != fmt.Sprintf("#%d", m.ID) {
		t.Errorf("the address ends in %q", hash)
	}

	// A click on an item of the chain goes there.
	p.do(chromedp.Click(chromedp.CSS(fmt.Sprintf(`#chain [data-id="%d"]`, chain[0]))))
	p.settle()
	if got := p.chosen(); got != chain[0] {
		t.Errorf("a click on the first cause, %d, chose %d", chain[0], got)
	}
	if w := ask[[]float64](p, "timelinePage.window()"); time.Duration(w[0]) > tl.Moments[chain[0]-1].At || time.Duration(w[1]) < tl.Moments[chain[0]-1].At {
		t.Errorf("the picture shows %v, without the moment at %v", w, tl.Moments[chain[0]-1].At)
	}

	// Frames that were lost can be clicked, too, where their crosses are.
	i := slices.IndexFunc(tl.Moments, func(m timeline.Moment) bool { return m.Kind == timeline.Lost && !tl.Routine(&m) })
	p.near(tl.Moments[i].At)
	p.click(i + 1)
	if got := p.chosen(); got != i+1 {
		t.Errorf("a click on the lost frame %d chose %d", i+1, got)
	}

	// A click on nothing chooses nothing.
	box := ask[[]float64](p, `(b => [b.right - 3, b.top + 40])(document.getElementById("lanes").getBoundingClientRect())`)
	ask[bool](p, fmt.Sprintf("timelinePage.show(%d, %d), true", tl.Duration*101/100, tl.Duration*102/100))
	p.settle()
	p.do(chromedp.MouseClickXY(box[0], box[1]))
	if got := p.chosen(); got != 0 {
		t.Errorf("a click on nothing chose %d", got)
	}
}

// Faults that are over at once have marks, not bars: those of no host in the lab's row.
func TestFaultsOfAMoment(t *testing.T) {
	tl := &timeline.Timeline{Hosts: []string{"a", "b"}, Duration: 10 * time.Second}
	for _, m := range []timeline.Moment{
		{At: 1 * time.Second, Kind: timeline.Fault, Host: timeline.Lab, Text: "partition a | b"},
		{At: 3 * time.Second, Kind: timeline.Struck, Host: timeline.Lab, Text: "reset a - b"},
		{At: 5 * time.Second, Kind: timeline.Struck, Host: "b", Text: "time of day of b steps by 1h"},
		{At: 6 * time.Second, Kind: timeline.News, Host: "a", Cause: 2, Text: "connection to b is down: lost"},
		{At: 9 * time.Second, Kind: timeline.Ended, Host: timeline.Lab, Begin: 1, Text: "the partition ends"},
	} {
		m.ID, m.Shard = len(tl.Moments)+1, -1
		tl.Moments = append(tl.Moments, m)
	}
	p := open(t, browser(t), tl)
	if facts := ask[string](p, `document.getElementById("facts").innerText`); !strings.Contains(facts, "3 faults") {
		t.Errorf("the page's facts are %q, without 3 faults", facts)
	}
	if told := ask[[]int](p, `Array.from(document.querySelectorAll("#panel [data-id]"), e => Number(e.dataset.id))`); !slices.Equal(told, []int{1, 2, 3}) {
		t.Errorf("the panel tells of the moments %v, want the faults", told)
	}
	for _, id := range []int{2, 3} {
		p.click(id)
		if got := p.chosen(); got != id {
			t.Errorf("a click on the fault %d chose %d", id, got)
		}
	}
	p.click(4)
	if got := p.listed("chain"); !slices.Equal(got, []int{2}) {
		t.Errorf("the broken connection is due to %v, want the reset", got)
	}
}

// The frames of a chain have their names, whatever else is shown.
func TestTheFramesOfAChainAreNamed(t *testing.T) {
	tl := violated()
	p := open(t, browser(t), tl)
	m := lonely(t, tl)
	p.do(chromedp.Click(chromedp.CSS(`[data-group="messages"]`)))
	ask[bool](p, fmt.Sprintf("timelinePage.choose(%d, true), true", m.ID))
	p.press("c")
	chain := tl.Chain(m.ID)
	names := ask[[]int](p, "timelinePage.stats.names")
	if len(names) == 0 || slices.ContainsFunc(names, func(id int) bool { return !slices.Contains(chain, id) }) {
		t.Errorf("the frames %v are named, want some of %v", names, chain)
	}
}

// However much is wrong for the whole of a run, its overview shows when more is.
func TestTheOverviewShowsWhenMoreIsWrong(t *testing.T) {
	tl := &timeline.Timeline{Hosts: []string{"a", "b"}, Duration: 10 * time.Second}
	for i := range 6 {
		tl.Moments = append(tl.Moments, timeline.Moment{ID: i + 1, Kind: timeline.Fault, Host: "a", Shard: -1, Text: "clock of a gains 3 ppm"})
	}
	tl.Moments = append(tl.Moments,
		timeline.Moment{ID: 7, At: 4 * time.Second, Kind: timeline.Fault, Host: timeline.Lab, Shard: -1, Text: "partition a | b"},
		timeline.Moment{ID: 8, At: 6 * time.Second, Kind: timeline.Ended, Begin: 7, Host: timeline.Lab, Shard: -1})
	p := open(t, browser(t), tl)
	row := ask[[]int](p, `(c => Array.from(c.getContext("2d").getImageData(116, 5, c.width - 116, 1).data))(document.getElementById("overview"))`)
	colour := func(part, of int) []int { i := len(row) / 4 * part / of * 4; return row[i : i+4] }
	if less, more := colour(1, 5), colour(1, 2); slices.Equal(less, more) {
		t.Errorf("the overview is %v where six faults last, and where seven do", less)
	}
}

func TestKeysWalkFromMomentToMoment(t *testing.T) {
	tl := violated()
	p := open(t, browser(t), tl)
	order := p.order()
	p.press(kb.ArrowRight)
	first := p.chosen()
	if first != order[0] {
		t.Errorf("the first moment is %d, want %d", first, order[0])
	}
	for i, step := range []struct {
		key  string
		want int
	}{{kb.ArrowRight, order[1]}, {kb.ArrowRight, order[2]}, {kb.ArrowLeft, order[1]}, {kb.ArrowLeft, order[0]}, {kb.ArrowLeft, order[0]}} {
		p.press(step.key)
		if got := p.chosen(); got != step.want {
			t.Errorf("after key %d: moment %d, want %d", i, got, step.want)
		}
	}
	m := lonely(t, tl)
	ask[bool](p, fmt.Sprintf("timelinePage.choose(%d, true), true", m.ID))
	p.press(kb.ArrowUp)
	if got := p.chosen(); got != m.Cause {
		t.Errorf("up from %d is %d, want its cause %d", m.ID, got, m.Cause)
	}
	p.press(kb.Escape)
	if got := p.chosen(); got != 0 {
		t.Errorf("after escape, %d is chosen", got)
	}
}

func TestVGoesToTheViolation(t *testing.T) {
	tl := violated()
	p := open(t, browser(t), tl)
	failure := tl.Moments[len(tl.Moments)-1]
	red := func() int {
		// How many pixels of the lock bars have the colour of alarm.
		return ask[int](p, `(() => {
			const c = document.getElementById("locks"), probe = document.createElement("canvas").getContext("2d");
			probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--alarm").trim();
			probe.fillRect(0, 0, 1, 1);
			const [r, g, b] = probe.getImageData(0, 0, 1, 1).data, d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
			let n = 0;
			for (let i = 0; i < d.length; i += 4) if (d[i] === r && d[i + 1] === g && d[i + 2] === b) n++;
			return n;
		})()`)
	}
	before := red()
	p.press("v")
	if got := p.chosen(); got != failure.ID || failure.Kind != timeline.Failure {
		t.Fatalf("v chose %d, not the failure %d", got, failure.ID)
	}
	w := ask[[]float64](p, "timelinePage.window()")
	if time.Duration(w[0]) > failure.At || time.Duration(w[1]) < failure.At || time.Duration(w[1]-w[0]) > time.Second {
		t.Errorf("v shows from %v to %v; the failure is at %v", time.Duration(w[0]), time.Duration(w[1]), failure.At)
	}
	text := ask[string](p, `document.getElementById("panel").innerText`)
	words := []string{"These held"}
	for i := len(tl.Moments) - 1; len(words) < 3; i-- { // the last two holds of that key
		if m := tl.Moments[i]; m.Kind == timeline.Held && m.Key == failure.Key {
			words = append(words, fmt.Sprintf("token %d", m.Token))
		}
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("the panel lacks %q: %s", word, text)
		}
	}
	if after := red(); after < 2000 || after < 2*before {
		t.Errorf("the bars have %d pixels of alarm, and %d before", after, before)
	}
	ask[bool](p, `timelinePage.choose(0), document.getElementById("violation").click(), true`)
	if got := p.chosen(); got != failure.ID {
		t.Errorf("the button chose %d", got)
	}
	p.forgive("willReadFrequently")
}

func TestFilters(t *testing.T) {
	tl := violated()
	p := open(t, browser(t), tl)
	moments := func() (all []timeline.Moment) {
		for _, id := range p.order() {
			all = append(all, tl.Moments[id-1])
		}
		return all
	}
	routine := func(m timeline.Moment) bool { return tl.Routine(&m) }
	all := len(p.order())
	if slices.ContainsFunc(moments(), routine) {
		t.Error("routine frames are shown at first")
	}
	p.do(chromedp.Click(chromedp.CSS(`[data-group="routine"]`)))
	if got := moments(); len(got) != len(tl.Moments) {
		t.Errorf("with routine frames, %d of %d moments are shown", len(got), len(tl.Moments))
	}
	p.do(chromedp.Click(chromedp.CSS(`[data-group="routine"]`)))

	choose := func(name, option string) {
		t.Helper()
		ask[bool](p, fmt.Sprintf(`(s => {
			s.value = Array.from(s.options).find(o => o.text === %q).value;
			return s.dispatchEvent(new Event("change"));
		})(document.getElementById(%q))`, option, name))
		p.settle()
	}
	choose("key", `"users"`)
	if got := moments(); len(got) == 0 || len(got) >= all || slices.ContainsFunc(got, func(m timeline.Moment) bool { return m.Key != "" && m.Key != "users" && m.Kind != timeline.Failure }) {
		t.Errorf("the key's filter shows %d moments of %d, or those of other keys", len(got), all)
	}
	if got := moments(); !slices.ContainsFunc(got, func(m timeline.Moment) bool { return m.Kind == timeline.Sent }) {
		t.Error("the key's filter hides the frames that are sent because of it")
	}
	choose("key", "all keys")
	choose("shard", "shard 2")
	if got := moments(); len(got) == 0 || slices.ContainsFunc(got, func(m timeline.Moment) bool { return m.Shard >= 0 && m.Shard != 2 }) {
		t.Errorf("the shard's filter shows %d moments, or those of other shards", len(got))
	}
	choose("shard", "all shards")
	choose("host", "b")
	if got := moments(); len(got) == 0 || len(got) >= all || slices.ContainsFunc(got, func(m timeline.Moment) bool {
		return m.Host != "b" && m.Peer != "b" && m.Host != timeline.Lab
	}) {
		t.Errorf("the host's filter shows %d moments of %d, or those of other hosts", len(got), all)
	}
	choose("host", "all hosts")
	if got := len(p.order()); got != all {
		t.Errorf("without filters, %d moments are shown, %d before", got, all)
	}

	// The search finds, and enter goes there.
	p.press("/")
	if focus := ask[string](p, "document.activeElement.id"); focus != "search" {
		t.Errorf("after a slash, the keys go to %q", focus)
	}
	p.search("forgetholder")
	if found := ask[string](p, `document.getElementById("found").value`); found != "1 found" {
		t.Errorf("the search says %q", found)
	}
	p.press(kb.Enter)
	if m := tl.Moments[max(1, p.chosen())-1]; m.Kind != timeline.Site || m.Text != "shard.table.forgetHolder" {
		t.Errorf("enter chose moment %d, %v %q", m.ID, m.Kind, m.Text)
	}
	// While the search has the keys, they are letters.
	if got := p.order(); len(got) != all {
		t.Errorf("typing in the search changed what is shown: %d moments of %d", len(got), all)
	}
}

func TestTheWheelZoomsAndDraggingMoves(t *testing.T) {
	p := open(t, browser(t), violated())
	window := func() (from, to float64) {
		w := ask[[]float64](p, "timelinePage.window()")
		return w[0], w[1]
	}
	from, to := window()
	ask[bool](p, `document.getElementById("lanes").dispatchEvent(new WheelEvent("wheel", { deltaY: -200, clientX: 600, clientY: 400, cancelable: true, bubbles: true })), true`)
	p.settle()
	nearFrom, nearTo := window()
	if nearTo-nearFrom >= (to-from)*.8 || nearFrom <= from || nearTo >= to {
		t.Errorf("the wheel zoomed from [%v, %v] to [%v, %v]", from, to, nearFrom, nearTo)
	}
	p.do(chromedp.DragAndDropXY(700, 400, 500, 400))
	p.settle()
	if f, to := window(); f <= nearFrom || !close(to-f, nearTo-nearFrom) {
		t.Errorf("dragging to the left moved from [%v, %v] to [%v, %v]", nearFrom, nearTo, f, to)
	}
	p.press("0")
	if f, to2 := window(); !close(f, from) || !close(to2, to) {
		t.Errorf("0 shows [%v, %v], want [%v, %v]", f, to2, from, to)
	}
}

func close(a, b float64) bool { return a-b < 1000 && b-a < 1000 } // a microsecond

func TestThePageIsDarkWhereTheReaderWantsIt(t *testing.T) {
	p := open(t, browser(t), violated())
	corner := `Array.from(document.getElementById("lanes").getContext("2d").getImageData(5, 5, 1, 1).data)`
	light := ask[[]int](p, corner)
	params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, params); err != nil {
		t.Fatal(err)
	}
	p.settle()
	dark := ask[[]int](p, corner)
	if light[0] < 200 || dark[0] > 80 {
		t.Errorf("the ground is %v in the light, and %v in the dark", light, dark)
	}
	p.forgive("willReadFrequently")
}

// The page tells how it came to a failure in the words of the terminal.
func TestThePageTellsWhatTheTerminalDoes(t *testing.T) {
	tl := violated()
	p := open(t, browser(t), tl)
	told := ask[[]string](p, `Array.from(document.querySelectorAll("#excerpt .what"), e => e.textContent)`)
	var lines []string
	for line := range strings.Lines(tl.Excerpt(timeline.FailureMoments)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	if len(told) < 5 || len(told) != len(lines) {
		t.Fatalf("the page tells %d things, the terminal %d:\n%s\n%s", len(told), len(lines), strings.Join(told, "\n"), strings.Join(lines, "\n"))
	}
	for i, what := range told {
		if !strings.Contains(lines[i], strings.TrimSuffix(what, " …")) {
			t.Errorf("the page tells %q, the terminal %q", what, lines[i])
		}
	}
	text := ask[string](p, `document.querySelector(".failure").textContent`)
	if last := tl.Moments[len(tl.Moments)-1]; !strings.Contains(last.Text, text) || text == "" {
		t.Errorf("the page says %q of the failure %q", text, last.Text)
	}
}
