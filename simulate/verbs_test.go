package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/simulate/timeline"
	"github.com/lockmesh/mesh/transport"
)

// Bad input ends in a panic that names it, and within Run in a failure.
func TestVerbsNameBadInput(t *testing.T) {
	tests := []struct {
		want string
		do   func(w *World)
	}{
		{`no host "x"`, func(w *World) { w.Host("x").Crash() }},
		{`no host "x"`, func(w *World) { w.Net.Partition([]string{"a"}, []string{"x"}) }},
		{`no host "x"`, func(w *World) { w.Net.PartitionOneWay([]string{"a"}, []string{"x"}) }},
		{`no host "x"`, func(w *World) { w.Net.PartitionOneWay([]string{"x"}, nil) }},
		{`no host "x"`, func(w *World) { w.Net.Isolate("x") }},
		{`no host "x"`, func(w *World) { w.Net.Hold("a", "x") }},
		{`no host "x"`, func(w *World) { w.Net.Release("x", "a") }},
		{`no host "x"`, func(w *World) { w.Net.SetLink("a", "x", Link{}) }},
		{`no host "x"`, func(w *World) { w.Host("a").LieDead("x") }},
		{`no host "x"`, func(w *World) { w.Host("x").BreakReplica(0) }},
		{`no host "x"`, func(w *World) { w.Host("x").SilenceGossip() }},
		{`no host "x"`, func(w *World) { w.Host("x").Clock.Step(1) }},
		{`no host "x"`, func(w *World) { w.Host("x").Leave() }},
		{`no host "x"`, func(w *World) { w.HealCore("a", "x") }},
		{`no host "x"`, func(w *World) { w.Net.Swizzle(time.Second, "a", "x") }},
		{`host "a" is in two groups`, func(w *World) { w.Net.Partition([]string{"a"}, []string{"b", "a"}) }},
		{"Swizzle: 0 hosts for 1s", func(w *World) { w.Net.Swizzle(time.Second) }},
		{"Swizzle: 1 hosts for -1s", func(w *World) { w.Net.Swizzle(-time.Second, "a") }},
		{"Link.Loss is 1000001", func(w *World) { w.Net.SetLinks(Link{Loss: million + 1}) }},
		{"Link.Duplicate is -1", func(w *World) { w.Net.SetLink("a", "b", Link{Duplicate: -1}) }},
		{"Link.Latency is -1ms", func(w *World) { w.Net.SetLinkOneWay("a", "b", Link{Latency: -time.Millisecond}) }},
		{"Link.Shape is 4", func(w *World) { w.Net.SetLinks(Link{Shape: 4}) }},
		{"Link.Bandwidth is -1", func(w *World) { w.Net.SetLinks(Link{Bandwidth: -1}) }},
		{"Link.Jitter is -1ns", func(*World) { New(Options{Link: Link{Jitter: -1}}) }},
		{"Gossip", func(*World) { New(Options{Gossip: Gossip{Lost: million + 1}}) }},
		{"ClockRate -1", func(*World) { New(Options{ClockRate: -1}) }},
		{`fault "crash"`, func(*World) { New(Options{Only: []string{"crash"}}) }},
		{"Chaos: there is no host", func(*World) { New(Options{}).Chaos(ChaosOptions{For: time.Second}) }},
		{`host named "a:7300"`, func(w *World) { w.Host("a:7300") }},
		{`host named "localhost" cannot be dialled`, func(w *World) { w.Host("localhost") }},
		{`host named "0.0.0.0" cannot be dialled`, func(w *World) { w.Host("0.0.0.0") }},
		{"BreakReplica: shard -1", func(w *World) { w.Host("a").BreakReplica(-1) }},
		{"SetRate: 1000001 ppm", func(w *World) { w.Host("a").Clock.SetRate(million + 1) }},
		{"SetRate: -500001 ppm", func(w *World) { w.Host("a").Clock.SetRate(-million/2 - 1) }},
		{"Noise: 600000 ppm is not in [-500000, 500000]", func(w *World) { w.Host("a").Clock.Noise(600_000) }},
		{"Wave: a period of 1ms", func(w *World) { w.Host("a").Clock.Wave(1, time.Millisecond) }},
		{"Slow: factor 0", func(w *World) { w.Host("a").Slow(0) }},
		{`Stall: no loop "shard": there are membership, shards, watch`, func(w *World) { w.Host("a").Stall("shard", time.Second) }},
		{"Stall: -1s is negative", func(w *World) { w.Host("a").Stall("membership", -time.Second) }},
		{`parameter "n": usual is 9, which is not in [1, 5]`, func(w *World) { w.PickMostly("n", 1, 9, 5) }},
		{"DelayGossip: -1s is negative", func(w *World) { w.Host("a").DelayGossip(-time.Second) }},
		{"Chaos: this world has had its storm", func(w *World) { w.Chaos(ChaosOptions{}); w.Chaos(ChaosOptions{}) }},
		{"Chaos: 0 faults or more in -1s", func(w *World) { w.Chaos(ChaosOptions{For: -time.Second}) }},
		{`no kind of fault "flood"`, func(w *World) { w.Chaos(ChaosOptions{Without: []string{"flood"}}) }},
	}
	for _, tt := range tests {
		w := New(Options{})
		w.Host("a")
		w.Host("b")
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "simulate: ") || !strings.Contains(got, tt.want) {
					t.Errorf("panic %q, want %q", got, tt.want)
				}
			}()
			tt.do(w)
		}()
		w.Close()
		w = New(Options{})
		w.Host("a")
		w.Host("b")
		w.At(time.Second, func() { tt.do(w) })
		if err := w.Run(time.Minute); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Run = %v, want %q", err, tt.want)
		}
		w.Close()
	}
}

func TestRunUntil(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	n := 0
	for i := range 10 {
		w.At(time.Duration(i)*time.Second, func() { n++ })
	}
	if err := w.RunUntil(func() bool { return n == 5 }, time.Minute); err != nil || w.Now() != 4*time.Second {
		t.Errorf("RunUntil = %v, at %v", err, w.Now())
	}
	if err := w.RunUntil(func() bool { return n == 50 }, time.Minute); err == nil || !strings.Contains(err.Error(), "not within 1m0s") {
		t.Errorf("RunUntil = %v", err)
	}
}

func TestHoldAndRelease(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	a.net.Send(b.id, 0, 0, []byte("1"))
	w.Net.Hold("a", "b")
	w.Net.Hold("a", "b") // once is enough
	a.net.Send(b.id, 0, 0, []byte("2"))
	b.net.Send(a.id, 0, 0, []byte("back"))
	run(t, w, time.Minute)
	if len(b.frames) != 0 || len(a.frames) != 1 {
		t.Errorf("frames %q, %q", a.frames, b.frames)
	}
	var kept []string
	for _, f := range w.Net.InFlight() {
		if !f.Kept || f.Arrives != 0 || f.From != "a" || f.To != "b" {
			t.Errorf("in flight: %+v", f)
		}
		kept = append(kept, string(f.Body))
	}
	if !slices.Equal(kept, []string{"1", "2"}) {
		t.Errorf("kept %q", kept)
	}
	w.Net.Release("b", "a") // the other way
	run(t, w, time.Second)
	w.Net.Release("a", "b")
	a.net.Send(b.id, 0, 0, []byte("3"))
	if n := len(w.Net.InFlight()); n != 3 {
		t.Errorf("%d frames in flight", n)
	}
	run(t, w, time.Second)
	if !slices.Equal(b.frames, []string{"1", "2", "3"}) || len(w.Net.InFlight()) != 0 {
		t.Errorf("received %q", b.frames)
	}
	expect(t, a) // no end noticed
	expect(t, b)
}

func TestHeldFramesDieWithTheirConnection(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	w.Net.Hold("a", "b")
	a.net.Send(b.id, 0, 0, []byte("old"))
	w.Net.Reset("a", "b")
	run(t, w, time.Second)
	w.HealAll()
	a.net.Send(b.id, 0, 0, []byte("new"))
	run(t, w, time.Second)
	if !slices.Equal(b.frames, []string{"new"}) {
		t.Errorf("received %q", b.frames)
	}
	w.Net.Hold("a", "b")
	a.net.Send(b.id, 0, 0, []byte("dead"))
	w.Host("b").Crash()
	run(t, w, time.Second)
	w.Net.ReleaseAll()
	if n := len(w.Net.InFlight()); n != 0 {
		t.Errorf("%d frames in flight to a dead process", n)
	}
	run(t, w, time.Second)
}

func TestVerdicts(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	verdicts := map[string]Verdict{"drop": Drop, "keep": Keep, "twice": Twice, "garble": Garble, "late": Verdict(time.Minute)}
	stop := w.Net.Rule(func(f Frame) Verdict { return verdicts[string(f.Body)] })
	never := w.Net.Rule(func(Frame) Verdict { return Drop })
	never()
	never() // twice is once
	for _, body := range []string{"drop", "keep", "twice", "garble", "late", "pass"} {
		a.net.Send(b.id, 0, 0, []byte(body))
	}
	run(t, w, time.Second)
	if slices.Sort(b.frames); !slices.Equal(b.frames, []string{"garbl", "pass", "twice", "twice"}) {
		t.Errorf("received %q", b.frames)
	}
	b.frames = nil
	stop()
	w.Net.Release("a", "b")
	run(t, w, time.Second)
	if !slices.Equal(b.frames, []string{"keep"}) {
		t.Errorf("received %q", b.frames)
	}
	run(t, w, time.Minute)
	if !slices.Equal(b.frames, []string{"keep", "late"}) {
		t.Errorf("received %q", b.frames)
	}
}

// arrivals sends frames of size bytes from a to b, one at a time, and returns how long
// each took.
func arrivals(t *testing.T, l Link, n, size int) []time.Duration {
	t.Helper()
	w, a, b := pairOf(t, Options{})
	w.Net.SetLinkOneWay("a", "b", l)
	var took []time.Duration
	for i := range n {
		start := w.Now()
		a.net.Send(b.id, 0, transport.Class(i%2), make([]byte, size))
		if err := w.RunUntil(func() bool { return len(b.frames) == i+1 }, time.Hour); err != nil {
			t.Fatal(err)
		}
		took = append(took, w.Now()-start)
	}
	slices.Sort(took)
	return took
}

func TestShapesOfJitter(t *testing.T) {
	const least, mean, n = 50 * time.Millisecond, 10 * time.Millisecond, 4000
	tests := []struct {
		shape             Shape
		middle, late, max [2]time.Duration // the median, the 99.9th of 100, and the last, beyond least
	}{
		{Fixed, [2]time.Duration{mean, mean}, [2]time.Duration{mean, mean}, [2]time.Duration{mean, mean}},
		{Uniform, [2]time.Duration{9 * ms, 11 * ms}, [2]time.Duration{19 * ms, 20 * ms}, [2]time.Duration{19 * ms, 20 * ms}},
		{Exponential, [2]time.Duration{6 * ms, 8 * ms}, [2]time.Duration{50 * ms, 90 * ms}, [2]time.Duration{60 * ms, 150 * ms}},
		{HeavyTail, [2]time.Duration{3 * ms, 6 * ms}, [2]time.Duration{150 * ms, 600 * ms}, [2]time.Duration{300 * ms, 10 * time.Second}},
	}
	for _, tt := range tests {
		took := arrivals(t, Link{Latency: least, Jitter: mean, Shape: tt.shape}, n, 10)
		var sum time.Duration
		for i := range took {
			took[i] -= least
			sum += took[i]
		}
		if avg := sum / n; avg < mean*8/10 || avg > mean*12/10 {
			t.Errorf("shape %d: %v on average, want about %v", tt.shape, avg, mean)
		}
		for what, x := range map[string]struct {
			at   int
			want [2]time.Duration
		}{"median": {n / 2, tt.middle}, "99.9th": {n * 999 / 1000, tt.late}, "last": {n - 1, tt.max}} {
			if got := took[x.at]; got < x.want[0] || got > x.want[1] {
				t.Errorf("shape %d: the %s takes %v, want %v", tt.shape, what, got, x.want)
			}
		}
	}
}

// A frame larger than a link's queue goes through though others wait there, as real queues have room for the largest: where something
// always waits, its sender would repeat it for ever.
func TestLargeFramesIntoShortQueues(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	w.Net.SetLinkOneWay("a", "b", Link{Latency: time.Millisecond, Bandwidth: 1 << 20, Queue: 2000})
	send := func(size int) bool { return a.net.Send(b.id, 0, transport.Normal, make([]byte, size)) }
	if !send(500) || !send(4000) || send(1) {
		t.Error("a queue of 2,000 bytes, in which 500 wait, takes a frame of 4,000, and then no other")
	}
	if run(t, w, 100*ms); len(b.frames) != 2 || !send(1) {
		t.Errorf("%d frames came, want two, and then the next goes", len(b.frames))
	}
}

func TestBandwidthAndQueue(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	const size = 1000 - frameOverhead
	w.Net.SetLinkOneWay("a", "b", Link{Latency: time.Millisecond, Bandwidth: 10_000, Queue: 4000}) // ten frames a second
	start, sent := w.Now(), 0
	for a.net.Send(b.id, 0, transport.Normal, make([]byte, size)) {
		sent++
	}
	if sent != 4 {
		t.Errorf("%d frames fit into the queue, want 4", sent)
	}
	waited := func(least, most time.Duration) {
		t.Helper()
		for _, h := range w.Hosts() {
			if d := h.process.Waited(); d < least || d > most {
				t.Errorf("%s has waited for %v, want %v to %v", h.name, d, least, most)
			}
		}
	}
	waited(0, 0)
	if !b.net.Send(a.id, 0, 0, make([]byte, 8*size)) {
		t.Error("the way back is as narrow")
	}
	for i := range sent {
		if err := w.RunUntil(func() bool { return len(b.frames) > i }, time.Second); err != nil {
			t.Fatal(err)
		}
		if d, want := w.Now()-start, time.Duration(i+1)*100*ms+ms; d < want || d > want+ms {
			t.Errorf("frame %d arrived after %v, want %v", i, d, want)
		}
	}
	if len(a.frames) != 1 {
		t.Error("the way back is slow")
	}
	if !a.net.Send(b.id, 0, 0, make([]byte, size)) {
		t.Error("the queue is empty and takes nothing")
	}
	for range 50 { // with the queue full, three frames go and three come in 300 ms
		run(t, w, 100*ms)
		for a.net.Send(b.id, 0, 0, make([]byte, size)) {
			sent++
		}
	}
	waited(5*time.Second, 5500*ms)
	w.HealAll()
	if !a.net.Send(b.id, 0, 0, make([]byte, 8*size)) {
		t.Error("healed, and the link is still narrow")
	}
	run(t, w, time.Second)
	if got := len(b.frames); got != sent+2 {
		t.Errorf("%d frames arrived, want %d", got, sent+2)
	}
}

// What is on its way over a link that becomes broader does not keep the pace at which it began.
func TestABroaderLinkIsFasterAtOnce(t *testing.T) {
	const size = 10_000 - frameOverhead
	narrow := Link{Latency: time.Millisecond, Bandwidth: 10_000}
	for _, tt := range []struct {
		name   string
		change func(*World)
		first  time.Duration // of the frame that is half through by then
	}{
		{"twice as broad", func(w *World) { w.Net.SetLinks(Link{Latency: time.Millisecond, Bandwidth: 20_000}) }, 750 * ms},
		{"without a limit", func(w *World) { w.Net.SetLink("a", "b", Link{Latency: time.Millisecond}) }, 500 * ms},
		{"healed", (*World).HealAll, 500 * ms},
		{"as before", func(w *World) { w.Net.SetLinks(narrow) }, time.Second},
		{"narrower", func(w *World) { w.Net.SetLinks(Link{Latency: time.Millisecond, Bandwidth: 5_000}) }, 1500 * ms},
	} {
		w, a, b := pairOf(t, Options{})
		w.Net.SetLink("a", "b", narrow)
		start := w.Now()
		for i := range 3 {
			a.net.Send(b.id, 0, transport.Class(i%2), append([]byte(fmt.Sprint(i)), make([]byte, size-1)...))
		}
		a.net.Disconnect(b.id)
		run(t, w, 500*ms)
		tt.change(w)
		if err := w.RunUntil(func() bool { return len(b.frames) > 0 }, time.Minute); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if d := w.Now() - start - tt.first; d < 0 || d > 3*ms {
			t.Errorf("%s: the first arrived after %v, want %v", tt.name, w.Now()-start, tt.first)
		}
		if tt.first == 500*ms {
			run(t, w, 10*ms)
			if len(b.frames) != 3 {
				t.Errorf("%s: %d arrived soon, want 3", tt.name, len(b.frames))
			}
			expect(t, b, "down goodbye")
		}
	}
}

// Only what waits for bandwidth is reckoned anew: not what a rule delays, which holds up nothing.
func TestABroaderLinkLeavesDelays(t *testing.T) {
	for _, change := range []func(*World){
		func(*World) {},
		func(w *World) { w.Net.SetLink("a", "b", Link{Latency: ms, Bandwidth: 11_000}) },
		(*World).HealAll,
	} {
		w, a, b := pairOf(t, Options{})
		w.Net.SetLink("a", "b", Link{Latency: ms, Bandwidth: 10_000})
		stop := w.Net.Rule(func(Frame) Verdict { return Verdict(time.Hour) })
		a.net.Send(b.id, 0, transport.Normal, []byte("late"))
		stop()
		a.net.Send(b.id, 0, transport.Normal, make([]byte, 1000))
		run(t, w, 10*ms)
		change(w)
		a.net.Send(b.id, 0, transport.Normal, []byte("next"))
		run(t, w, time.Minute)
		if len(b.frames) != 2 {
			t.Errorf("after a minute %d frames, want those that nothing delays", len(b.frames))
		}
		run(t, w, time.Hour)
		if len(b.frames) != 3 {
			t.Errorf("after an hour %d frames", len(b.frames))
		}
	}
}

// A link that is narrow for moments is no broader for that.
func TestANarrowMomentMakesNothingFaster(t *testing.T) {
	const size = 10_000 - frameOverhead
	wide := Link{Latency: ms, Bandwidth: 10_000}
	w, a, b := pairOf(t, Options{})
	w.Net.SetLink("a", "b", wide)
	start := w.Now()
	for range 10 {
		a.net.Send(b.id, 0, transport.Normal, make([]byte, size))
	}
	for range 10 {
		w.Net.SetLink("a", "b", Link{Latency: ms, Bandwidth: 5_000})
		w.Net.SetLink("a", "b", wide)
	}
	if err := w.RunUntil(func() bool { return len(b.frames) == 10 }, time.Minute); err != nil {
		t.Fatal(err)
	}
	if d := w.Now() - start; d < 10*time.Second || d > 10*time.Second+10*ms {
		t.Errorf("100 kB at 10 kB/s took %v", d)
	}
}

// What is sent as soon as a connection is up does not overtake the last step of its handshake.
func TestABroaderLinkLosesNothing(t *testing.T) {
	w := New(Options{})
	t.Cleanup(w.Close)
	a, b := listen(t, w, "a", ":1"), listen(t, w, "b", ":1")
	w.Net.SetLink("a", "b", Link{Latency: ms, Bandwidth: 8192})
	a.net.Connect(b.id, b.net.Addr())
	if err := w.RunUntil(func() bool { return len(a.said) > 0 }, time.Minute); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		a.net.Send(b.id, 0, transport.Normal, []byte("x"))
	}
	run(t, w, ms)
	w.HealAll()
	run(t, w, time.Minute)
	if len(b.frames) != 3 {
		t.Errorf("%d of 3 frames arrived over a link that loses none", len(b.frames))
	}
}

// Who has the late frame, for the link was healed, does not give up for it.
func TestNobodyGivesUpForWhatArrived(t *testing.T) {
	n := 0
	for seed := range uint64(40) {
		w, a, b := pairOf(t, Options{Seed: seed})
		w.Net.SetLinkOneWay("a", "b", Link{Latency: ms, Bandwidth: 100, Jitter: 2 * time.Second})
		a.net.Send(b.id, 0, 0, make([]byte, 1000)) // for 10 s, and then perhaps late
		w.HealAll()
		w.Net.SetLinks(Link{Latency: ms})
		run(t, w, 8*time.Second)
		if len(b.frames) == 0 {
			continue // it is late by more than that
		}
		n++
		conn := b.net.(*endpoint).peers[a.id].conn
		run(t, w, 20*time.Second)
		if b.net.(*endpoint).peers[a.id].conn != conn {
			t.Errorf("seed %d: b gave the connection up", seed)
		}
	}
	if n == 0 {
		t.Error("no frame arrived in time")
	}
}

// A frame that is late by seconds lets none pass, no keep-alive either: the connection ends.
func TestWhoHearsNothingForLongGivesUp(t *testing.T) {
	w, a, b := pairOf(t, Options{Timeline: true})
	w.Net.SetLinkOneWay("a", "b", Link{Jitter: 2 * time.Second})
	for range 100 {
		a.net.Send(b.id, 0, 0, []byte("x"))
		run(t, w, time.Second)
	}
	run(t, w, time.Minute)
	if lost := 100 - len(b.frames); lost == 0 || lost == 100 {
		t.Errorf("%d of 100 frames were lost with their connections", lost)
	}
	w.Net.SetLinkOneWay("a", "b", Link{Latency: time.Minute, Jitter: time.Minute, Shape: Fixed})
	b.frames = nil
	run(t, w, time.Minute)
	a.net.Send(b.id, 0, 0, []byte("slow"))
	run(t, w, 3*time.Minute)
	if len(b.frames) != 1 {
		t.Errorf("%d frames over a link that is slow, and steady", len(b.frames))
	}
}

func TestUrgentFramesOvertakeOnNarrowLinks(t *testing.T) {
	w, a, b := pairOf(t, Options{})
	w.Net.SetLink("a", "b", Link{Bandwidth: 10_000})
	for range 5 {
		a.net.Send(b.id, 0, transport.Normal, make([]byte, 1000))
	}
	a.net.Send(b.id, 0, transport.Urgent, []byte("renewal"))
	run(t, w, time.Second)
	if len(b.frames) != 6 || b.frames[0] != "renewal" {
		t.Errorf("%d frames arrived, the first %.10q", len(b.frames), b.frames[0])
	}
}

func TestSwizzle(t *testing.T) {
	hosts := []string{"a", "b", "c", "d"}
	orders := make(map[string]bool)
	for seed := range uint64(20) {
		w := New(Options{Seed: seed})
		for _, h := range hosts {
			w.Host(h)
		}
		w.Host("e")
		cut := func(h string) bool { return !w.Net.Reaches(h, "e") && !w.Net.Reaches("e", h) }
		w.Net.Swizzle(8*time.Second, hosts...)
		var out, in []string
		for range 802 {
			for _, h := range hosts {
				if cut(h) && !slices.Contains(out, h) {
					out = append(out, h)
				}
				if !cut(h) && slices.Contains(out, h) && !slices.Contains(in, h) {
					in = append(in, h)
				}
			}
			if len(in) > 0 && len(out) < 4 {
				t.Fatalf("%q are back before all were out: %q", in, out)
			}
			run(t, w, 10*ms)
		}
		if len(in) != 4 {
			t.Fatalf("only %q are back", in)
		}
		orders[fmt.Sprint(out, in)] = true
		w.Close()
	}
	if len(orders) < 15 {
		t.Errorf("only %d different swizzles in 20 worlds", len(orders))
	}
}

// clockError returns how far the host's monotonic clock is ahead of the true time.
func clockError(w *World, h *Host, since time.Duration) time.Duration {
	return h.process.Now() - since - w.now
}

func TestClockWaveAndNoise(t *testing.T) {
	for name, begin := range map[string]func(w *World){
		"wave":  func(w *World) { w.Host("a").Clock.Wave(10_000, 8*time.Second) },
		"noise": func(w *World) { w.Host("a").Clock.Noise(10_000) },
	} {
		w := New(Options{Seed: 3})
		h := w.Host("a")
		zero := h.process.Now()
		woke := 0
		h.Go("sleeper", func(ctx context.Context) {
			for Sleep(ctx, time.Second) == nil {
				woke++
			}
		})
		begin(w)
		rates := make(map[int64]bool)
		var most, last time.Duration
		for range 800 {
			run(t, w, 100*ms)
			e := clockError(w, h, zero)
			if d := e - last; max(d, -d) > ms { // 1 % of 100 ms
				t.Fatalf("%s: in 100 ms it gained %v", name, d)
			}
			last, most = e, max(most, e)
			rates[h.clock.rate] = true
		}
		if len(rates) < 5 || most < 5*ms || woke < 78 || woke > 82 {
			t.Errorf("%s: %d rates, ahead by up to %v, %d seconds in 80", name, len(rates), most, woke)
		}
		if name == "wave" && max(last, -last) > ms {
			t.Errorf("after ten whole waves it is ahead by %v", last)
		}
		w.Host("a").Clock.SetRate(0)
		run(t, w, time.Second)
		last = clockError(w, h, zero)
		if run(t, w, time.Minute); clockError(w, h, zero) != last {
			t.Errorf("%s goes on after ClockRate", name)
		}
		w.Close()
	}
}

func TestStallStopsOneLoop(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	p := w.Host("a").process
	last := make(map[string]time.Duration)
	for _, name := range []string{"shards", "watch"} {
		p.NewLoop(name, func(now time.Duration) time.Duration { last[name] = w.Now(); return now + 10*ms }).Wake()
	}
	run(t, w, time.Second)
	w.Host("a").Stall("shards", 5*time.Second)
	w.Host("a").Stall("membership", time.Hour) // there is none
	run(t, w, 4*time.Second)
	if last["shards"] > time.Second || last["watch"] < 4900*ms {
		t.Errorf("they ran last at %v", last)
	}
	run(t, w, 2*time.Second)
	if last["shards"] < 6900*ms {
		t.Errorf("the stalled loop ran last at %v", last["shards"])
	}
	w.Host("a").Stall("shards", time.Hour)
	w.HealAll()
	run(t, w, time.Second)
	if last["shards"] < 7900*ms {
		t.Errorf("healed, it ran last at %v", last["shards"])
	}
}

func TestDetectors(t *testing.T) {
	w, probes, members := gossipers(t, Options{Seed: 3})
	w.Host("a").SilenceGossip()
	w.Host("b").DelayGossip(time.Minute)
	w.Host("c").Crash()
	run(t, w, 30*time.Second)
	expectNews(t, probes["a"])
	expectNews(t, probes["b"])
	w.Host("a").RestoreGossip()
	run(t, w, time.Second)
	expectNews(t, probes["a"], "dead c") // what it had missed
	run(t, w, time.Minute)
	expectNews(t, probes["b"], "dead c")
	w.Host("a").SilenceGossip()
	members["b"].Leave()
	run(t, w, 30*time.Second)
	expectNews(t, probes["a"])
	w.HealAll()
	run(t, w, time.Second)
	expectNews(t, probes["a"], "gone b")
}

func TestNoDelayOfGossipIsNoFault(t *testing.T) {
	w := New(Options{Timeline: true})
	defer w.Close()
	w.Host("a")
	w.Host("a").DelayGossip(time.Second)
	w.Host("a").DelayGossip(0)
	began, ended := 0, 0
	for _, m := range w.Timeline().Moments {
		switch m.Kind {
		case timeline.Fault:
			began++
		case timeline.Ended:
			ended++
		}
	}
	if began != 1 || ended != 1 {
		t.Errorf("%d faults began, and %d ended, want one each", began, ended)
	}
}

// Of several faults that keep a host down one after the other, none lasts beyond the next restart.
func TestEachOutageEnds(t *testing.T) {
	for _, faults := range [][]func(*Host){
		{(*Host).Crash}, {(*Host).PowerOff}, {(*Host).Crash, (*Host).PowerOff}, {(*Host).Leave, (*Host).Crash}, {(*Host).Leave, (*Host).PowerOff},
	} {
		w := New(Options{Timeline: true})
		w.Host("a")
		for range 2 {
			for _, fault := range faults {
				fault(w.Host("a"))
			}
			w.Host("a").Restart()
		}
		open := make(map[int]bool)
		for _, m := range w.Timeline().Moments {
			switch {
			case m.Kind == timeline.Fault:
				open[m.ID] = true
			case m.Kind == timeline.Ended && !open[m.Begin]:
				t.Errorf("%d faults: one ends twice", len(faults))
			case m.Kind == timeline.Ended:
				delete(open, m.Begin)
			}
		}
		if len(open) > 0 {
			t.Errorf("%d faults: %d of them do not end", len(faults), len(open))
		}
		w.Close()
	}
}

// inspectedProbe is a node that can leave.
type inspectedProbe struct {
	env.Inspected
	takes  time.Duration
	err    error
	ready  bool
	broken []int
}

func (*inspectedProbe) Entries() []string     { return nil }
func (*inspectedProbe) Seats() []transport.ID { return nil }
func (p *inspectedProbe) Ready() bool         { return p.ready }

func (p *inspectedProbe) Break(shard int) { p.broken = append(p.broken, shard) }

func (p *inspectedProbe) Leave(ctx context.Context) error {
	_ = Sleep(ctx, p.takes)
	return p.err
}

func TestBreakReplicaBreaksThatOfTheHost(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	var probes [2]inspectedProbe
	w.Host("a").process.Inspect(1, &probes[0])
	w.Host("b").process.Inspect(2, &probes[1])
	w.Host("a").BreakReplica(7)
	w.Host("b").Crash()
	w.Host("b").BreakReplica(7) // nothing is there
	if !slices.Equal(probes[0].broken, []int{7}) || probes[1].broken != nil {
		t.Errorf("broken on a: %v, on b: %v; want shard 7 on a alone", probes[0].broken, probes[1].broken)
	}
}

func TestLeaveEndsTheProcess(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	h := w.Host("a")
	h.process.Inspect(1, &inspectedProbe{takes: 3 * time.Second})
	h.process.Inspect(2, &inspectedProbe{takes: 2 * time.Second, err: errors.New("not all was handed over")})
	w.Host("a").Leave()
	w.Host("a").Leave() // it does already
	run(t, w, 4900*ms)
	if !h.Up() {
		t.Error("it has not left, and is down")
	}
	run(t, w, 200*ms)
	if h.Up() {
		t.Error("it has left, and is up")
	}
	w.Host("a").Leave() // it is down
	w.Host("a").Restart()
	run(t, w, time.Minute)
	if !h.Up() || h.Incarnation() != 2 {
		t.Error("it is not back")
	}
}

// HealAll heals the links of hosts that are still to come, too.
func TestHealAllAndANewHost(t *testing.T) {
	w := New(Options{Link: Link{Loss: million}})
	defer w.Close()
	w.Host("a")
	w.HealAll()
	w.Host("b")
	for _, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
		if l := w.Net.paths[w.Host(way[0]).index][w.Host(way[1]).index].link; l.harsh() {
			t.Errorf("%s -> %s: %+v", way[0], way[1], l)
		}
	}
}

func TestHealCore(t *testing.T) {
	w := New(Options{})
	defer w.Close()
	for _, h := range []string{"a", "b", "c", "d"} {
		w.Host(h)
	}
	w.Net.Partition([]string{"a"}, []string{"b"}, []string{"c", "d"})
	w.Net.PartitionOneWay([]string{"a"}, []string{"b"})
	w.Host("b").Pause()
	w.Host("a").Crash()
	w.Host("b").Slow(8)
	w.Host("c").Pause()
	w.Host("d").Slow(8)
	w.Net.Hold("a", "b")
	w.Net.Hold("a", "d")
	w.Net.SetLink("a", "b", Link{Loss: 1000})
	w.Net.SetLink("a", "d", Link{Loss: 1000})
	w.Net.blow(&weather{change: func(l *Link) { l.Duplicate = 500 }})
	w.HealCore("a", "b")
	a, b, c, d := w.Host("a"), w.Host("b"), w.Host("c"), w.Host("d")
	if !w.Net.Reaches("a", "b") || !w.Net.Reaches("b", "a") || !a.Up() || b.Paused() || b.slow != 1 {
		t.Error("the core is not healed")
	}
	if w.Net.Reaches("a", "d") || w.Net.Reaches("c", "b") || !c.Paused() || d.slow != 8 {
		t.Error("what is not in the core is healed")
	}
	within, out := w.Net.paths[a.index][b.index], w.Net.paths[a.index][d.index]
	if within.link.harsh() || within.keeps || out.link.Loss != 1000 || out.link.Duplicate != 500 || !out.keeps {
		t.Errorf("within the core %+v %v, out of it %+v %v", within.link, within.keeps, out.link, out.keeps)
	}
	w.HealAll()
	if !w.Net.Reaches("c", "b") || c.Paused() || d.slow != 1 || w.Net.paths[a.index][d.index].link.harsh() {
		t.Error("not all is healed")
	}
}
