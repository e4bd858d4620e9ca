package transport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/wire"
	"github.com/lockmesh/mesh/internal/wire/wiretest"
)

func TestReadFrame(t *testing.T) {
	good := appendFrame(nil, KindShard, []byte("body"))
	change := func(at int) []byte {
		b := slices.Clone(good)
		b[at] ^= 1
		return b
	}
	for _, tt := range []struct {
		name  string
		given []byte
		want  error
		says  string
	}{
		{"nothing", nil, io.EOF, ""},
		{"half a header", good[:5], io.ErrUnexpectedEOF, ""},
		{"a header alone", good[:9], io.ErrUnexpectedEOF, ""},
		{"half a body", good[:11], io.ErrUnexpectedEOF, ""},
		{"a changed CRC", change(4), errMalformed, "CRC"},
		{"a changed kind", change(8), errMalformed, "CRC"},
		{"a changed body", change(12), errMalformed, "CRC"},
		{"a shorter length", change(3), errMalformed, "CRC"},
		{"a length of zero", []byte{0, 0, 0, 0, 1, 2, 3, 4, 5}, errMalformed, "no kind"},
		{"a body one too long", appendFrame(nil, KindShard, make([]byte, 101)), errMalformed, "body has 101 bytes, want at most 100"},
		{"the largest length", []byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5}, errMalformed, "body has 4294967294 bytes"},
		{"a kind of 128", appendFrame(nil, 128, nil), errMalformed, "kind 0x80"},
	} {
		_, _, err := readFrame(bufio.NewReader(bytes.NewReader(tt.given)), 100)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %v and %q", tt.name, err, tt.want, tt.says)
		}
	}
	for _, body := range [][]byte{nil, []byte("x"), make([]byte, 100)} {
		kind, got, err := readFrame(bufio.NewReader(bytes.NewReader(appendFrame(nil, KindGossip, body))), 100)
		if err != nil || kind != KindGossip || !bytes.Equal(got, body) {
			t.Errorf("a body of %d bytes: %d, %x, %v", len(body), kind, got, err)
		}
	}
}

// A length is checked before memory is allocated for it.
func TestReadFrameAllocatesNothingForALie(t *testing.T) {
	lie := []byte{0x7f, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5}
	in := bytes.NewReader(lie)
	r := bufio.NewReader(in)
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range min(b.N, 1000) {
			in.Reset(lie)
			r.Reset(in)
			if _, _, err := readFrame(r, MaxFrame); !errors.Is(err, errMalformed) {
				b.Fatal(err)
			}
		}
	})
	if got := result.AllocedBytesPerOp(); got > 1<<10 {
		t.Errorf("%d bytes", got)
	}
}

func FuzzReadFrame(f *testing.F) {
	two := appendFrame(appendFrame(nil, KindShard, []byte("body")), kindPing, nil)
	f.Add(two)
	f.Add(two[:12])
	f.Add(appendFrame(nil, KindControl, make([]byte, 5000)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 4096
		r := bufio.NewReader(bytes.NewReader(b))
		var again []byte
		for {
			kind, body, err := readFrame(r, limit)
			if err != nil {
				break
			}
			if len(body) > limit || kind > maxKind {
				t.Fatalf("kind %d, %d bytes", kind, len(body))
			}
			again = appendFrame(again, kind, body)
		}
		if !bytes.HasPrefix(b, again) {
			t.Fatalf("%x was read as %x", b, again)
		}
	})
}

func fullHello() Hello {
	return Hello{
		MeshName: "orders", MeshID: 1 << 63, Name: "app-0", ID: 0xfedcba9876543210, Addr: "10.1.2.3:7946",
		Zone: "a", MinVersion: 1, MaxVersion: 1<<32 - 1, RingHash: 42,
	}
}

func TestHelloAndVerdictSurviveTheWire(t *testing.T) {
	g := greeting{Hello: fullHello(), Attempt: 7}
	if got, err := decodeGreeting(appendGreeting(nil, g)); err != nil || got != g {
		t.Errorf("%+v, %v, want %+v", got, err, g)
	}
	v := verdict{Judgement: refused, Epoch: 1 << 40, Number: 3, Awaited: []dial{{1, true}, {300, false}}, Reason: "why"}
	if got, err := decodeVerdict(appendVerdict(nil, v)); err != nil || !reflect.DeepEqual(got, v) {
		t.Errorf("%+v, %v, want %+v", got, err, v)
	}
	// A field beyond its limit is cut, so that the other end accepts it.
	v = verdict{Awaited: make([]dial, maxAwaited+1), Reason: strings.Repeat("x", 2*maxReason)}
	v.Awaited[maxAwaited].Number = 9
	got, err := decodeVerdict(appendVerdict(nil, v))
	if err != nil || len(got.Awaited) != maxAwaited || got.Awaited[maxAwaited-1].Number != 9 || len(got.Reason) != maxReason {
		t.Errorf("%+v, %v", got, err)
	}
	if n := len(appendVerdict(nil, v)); n > maxHandshake {
		t.Errorf("the largest verdict has %d bytes", n)
	}
	h := Hello{MeshName: strings.Repeat("x", maxName), Name: strings.Repeat("x", maxName), Addr: strings.Repeat("x", maxName), Zone: strings.Repeat("x", maxName), ID: 1}
	if n := len(appendGreeting(nil, greeting{Hello: h})); n > maxHandshake || checkHello(h) != nil {
		t.Errorf("the largest hello has %d bytes; %v", n, checkHello(h))
	}
}

// The form of a handshake must not change: later versions add data in the field Room.
func TestFormsOfHandshakes(t *testing.T) {
	h := fullHello()
	want := []any{h.MeshName, h.MeshID, h.Name, uint64(h.ID), h.Addr, h.Zone, 1, h.MaxVersion, h.RingHash, 7, ""}
	if got, want := appendGreeting(nil, greeting{Hello: h, Attempt: 7}), wiretest.Encode(t, want); !bytes.Equal(got, want) {
		t.Errorf("a hello is %x, want %x", got, want)
	}
	v := verdict{Judgement: refused, Epoch: 1 << 40, Number: 3, Awaited: []dial{{1, true}, {300, false}}, Reason: "why"}
	want = []any{1, uint64(1 << 40), 3, []any{[]any{1, true}, []any{300, false}}, "why", ""}
	if got, want := appendVerdict(nil, v), wiretest.Encode(t, want); !bytes.Equal(got, want) {
		t.Errorf("a verdict is %x, want %x", got, want)
	}
	g, err := decodeGreeting(appendGreeting(nil, greeting{Hello: h, Room: "more"}))
	if err != nil || g.Hello != h {
		t.Errorf("a later version's hello is read as %+v, %v", g, err)
	}
}

func TestDecodeHelloRefuses(t *testing.T) {
	good := appendGreeting(nil, greeting{Hello: fullHello()})
	long := fullHello()
	long.Zone = strings.Repeat("x", maxName+1)
	for name, b := range map[string][]byte{
		"nothing":            nil,
		"bytes after it":     append(slices.Clone(good), 0),
		"a name too long":    appendGreeting(nil, greeting{Hello: long}),
		"a field too few":    append([]byte{0x9a}, good[1:]...),
		"another type":       append([]byte{good[0], 0x01}, good[8:]...),
		"an unbounded array": {0xdd, 0xff, 0xff, 0xff, 0xff},
	} {
		if g, err := decodeGreeting(b); !errors.Is(err, errMalformed) || g != (greeting{}) {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
	for i := range good {
		if _, err := decodeGreeting(good[:i]); !errors.Is(err, wire.ErrShort) {
			t.Errorf("%d of %d bytes: %v", i, len(good), err)
		}
	}
	for name, v := range map[string][]any{
		"half an attempt":           {0, 0, 0, []any{[]any{1}}, "", ""},
		"too many attempts":         {0, 0, 0, slices.Repeat([]any{[]any{1, true}}, maxAwaited+1), "", ""},
		"an unknown judgement":      {int(maxJudgement), 0, 0, nil, "", ""},
		"a judgement beyond a byte": {256, 0, 0, nil, "", ""},
		"a long reason":             {0, 0, 0, nil, strings.Repeat("x", maxReason+1), ""},
		"too much room":             {0, 0, 0, nil, "", strings.Repeat("x", maxExtra+1)},
		"another type":              {0, 0, 0, nil, []byte{}, ""},
		"a field less":              {0, 0, 0, nil, ""},
	} {
		if got, err := decodeVerdict(wiretest.Encode(t, v)); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func FuzzHello(f *testing.F) {
	f.Add(appendOpening(nil, greeting{Hello: fullHello(), Attempt: 7}))
	f.Add(appendFrame(appendOpening(nil, greeting{Hello: fullHello()}), kindVerdict,
		appendVerdict(nil, verdict{Epoch: 1, Awaited: []dial{{1, true}}, Reason: "x"})))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("LOCKMSH\x02"))
	f.Add([]byte("LOCKMSH\x01\x00\x00\x10\x00....p"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		g, err := readOpening(r)
		if err == nil {
			again, err := decodeGreeting(appendGreeting(nil, g))
			if err != nil || again != g {
				t.Fatalf("%+v became %+v, %v", g, again, err)
			}
			if v, err := readVerdict(r); err == nil {
				again, err := decodeVerdict(appendVerdict(nil, v))
				if err != nil || !reflect.DeepEqual(again, v) {
					t.Fatalf("%+v became %+v, %v", v, again, err)
				}
			}
		}
		// Without the frame around it: the fuzzer seldom finds a valid one.
		if g, err := decodeGreeting(b); err == nil && checkHello(Hello{ID: 1, Name: g.Name, Addr: g.Addr, Zone: g.Zone, MeshName: g.MeshName}) != nil {
			t.Fatalf("%+v is beyond the limits", g)
		}
		decodeVerdict(b)
	})
}

func TestQueueTakesUrgentFramesFirst(t *testing.T) {
	var q queue
	q.init()
	for i := range 3 {
		q.push(Normal, outgoing{kind: Kind(i)})
		q.push(Urgent, outgoing{kind: Kind(10 + i)})
	}
	kinds := func(batch []outgoing) (kinds []Kind) {
		for _, f := range batch {
			kinds = append(kinds, f.kind)
		}
		return kinds
	}
	batch, ok := q.take(nil)
	if want := []Kind{10, 11, 12, 0, 1, 2}; !ok || !slices.Equal(kinds(batch), want) {
		t.Errorf("take = %v, want %v", kinds(batch), want)
	}
	q.push(Normal, outgoing{kind: 1})
	q.finish()
	if q.push(Urgent, outgoing{}) {
		t.Error("push after finish = true")
	}
	if batch, ok = q.take(nil); !ok || !slices.Equal(kinds(batch), []Kind{1, kindGoodbye}) {
		t.Errorf("take after finish = %v, %v", kinds(batch), ok)
	}
	if batch, ok = q.take(nil); ok {
		t.Errorf("take after the goodbye = %v", kinds(batch))
	}
}

// Promise: P32: the goodbye follows all queued frames, however many batches they need.
func TestTheGoodbyeIsLast(t *testing.T) {
	var q queue
	q.init()
	const frames = 3
	for range frames {
		q.push(Normal, outgoing{kind: 1, body: make([]byte, batchBytes)})
	}
	q.finish()
	var all []outgoing
	for {
		batch, ok := q.take(nil)
		if !ok {
			break
		}
		all = append(all, batch...)
	}
	if goodbye := slices.IndexFunc(all, func(f outgoing) bool { return f.kind == kindGoodbye }); goodbye != frames || len(all) != frames+1 {
		t.Errorf("%d frames, the goodbye at index %d, want %d, the goodbye last", len(all), goodbye, frames+1)
	}
}

func TestQueueIsBounded(t *testing.T) {
	var q queue
	q.init()
	for i := range maxQueuedFrames {
		if !q.push(Normal, outgoing{kind: 1}) {
			t.Fatalf("full with %d frames", i)
		}
	}
	if q.push(Normal, outgoing{}) {
		t.Error("one frame too many")
	}
	if !q.push(Urgent, outgoing{body: make([]byte, MaxFrame)}) {
		t.Error("the urgent queue is full too")
	}
	for i := 1; i < maxQueuedBytes/MaxFrame; i++ {
		q.push(Urgent, outgoing{body: make([]byte, MaxFrame)})
	}
	if q.push(Urgent, outgoing{body: []byte{1}}) {
		t.Error("one byte too many")
	}
	// A batch is bounded too, except for its last frame.
	batch, _ := q.take(nil)
	if len(batch) != 1 {
		t.Errorf("a batch of %d frames of 1 MiB", len(batch))
	}
	if !q.push(Urgent, outgoing{body: make([]byte, MaxFrame)}) {
		t.Error("no room for as much as was taken")
	}
	total := len(batch)
	for !q.empty() {
		batch, _ = q.take(batch[:0])
		total += len(batch)
	}
	if want := maxQueuedFrames + maxQueuedBytes/MaxFrame + 1; total != want {
		t.Errorf("%d frames came out, want %d", total, want)
	}
}

// A connection that is made while Close runs is closed, too.
func TestAConnectionIsMadeTooLate(t *testing.T) {
	tr := &Transport{timing: defaultTiming(), ctx: t.Context()}
	tr.conns.close()
	a, b := net.Pipe()
	defer b.Close()
	c := tr.newConn(a, true)
	if !c.ended() || c.cause() != errClosed {
		t.Fatal("it goes on")
	}
	if _, err := b.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("its socket: %v, want closed", err)
	}
}

func TestPulse(t *testing.T) {
	tr := &Transport{timing: defaultTiming(), ctx: t.Context()}
	fresh := func() (*conn, net.Conn) {
		a, b := net.Pipe()
		return tr.newConn(a, true), b
	}
	c, other := fresh()
	defer other.Close()
	c.reading.Store(true)
	for i := range 100 { // bytes arrive every fourth pulse
		c.didRead.Store(i%4 == 0)
		c.beat()
	}
	if c.ended() {
		t.Fatal("ended, though bytes arrived")
	}
	if batch, _ := c.out.take(nil); len(batch) != 100 || batch[0].kind != kindPing {
		t.Errorf("%d pings in 100 idle pulses", len(batch))
	}
	c.didWrite.Store(true)
	c.beat()
	if !c.out.empty() {
		t.Error("a ping, though something was written")
	}
	c.reading.Store(false) // the reader is in the handler
	for range 100 {
		c.beat()
	}
	if c.ended() {
		t.Fatal("ended, though the reader was busy")
	}
	c.reading.Store(true)
	for range tr.timing.silence {
		c.beat()
	}
	if err := c.cause(); err != errSilent {
		t.Errorf("after %d silent pulses: %v", tr.timing.silence, err)
	}

	c, other = fresh()
	defer other.Close()
	c.writing.Store(true)
	for range tr.timing.stuck {
		c.didRead.Store(true)
		c.beat()
	}
	if err := c.cause(); err != errStuck {
		t.Errorf("after %d pulses in one write: %v", tr.timing.stuck, err)
	}
}

func TestWarningsAreLimited(t *testing.T) {
	var l limiter
	now := time.Now()
	allowed := 0
	for range 100 {
		if ok, _ := l.allow(now); ok {
			allowed++
		}
	}
	if allowed != warnBurst {
		t.Errorf("%d warnings at once, want %d", allowed, warnBurst)
	}
	if ok, suppressed := l.allow(now.Add(warnEvery)); !ok || suppressed != 100-warnBurst {
		t.Errorf("%v, %d suppressed, want %d", ok, suppressed, 100-warnBurst)
	}
}

func TestWaitsGrowWithJitter(t *testing.T) {
	tm := defaultTiming()
	for tries, want := range map[int]time.Duration{1: tm.backoff, 2: 2 * tm.backoff, 7: 64 * tm.backoff, 8: tm.maxWait, 1000: tm.maxWait} {
		for range 100 {
			if d := tm.wait(tries); d < want/2 || d > want {
				t.Fatalf("wait(%d) = %v, want %v to %v", tries, d, want/2, want)
			}
		}
	}
}
