package gossip

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/lockmesh/mesh/internal/env"
	"github.com/lockmesh/mesh/transport"
)

// pair is two muxes on a hub.
type pair struct {
	hub   *hub
	ports [2]*berth
	muxes [2]*mux
}

func newPair() *pair {
	p := &pair{hub: newHub()}
	for i := range p.muxes {
		id := transport.ID(i + 1)
		p.ports[i] = p.hub.attach(env.Member{ID: id})
		p.muxes[i] = newMux(id, p.ports[i], slog.New(slog.DiscardHandler))
		p.ports[i].start(func(from transport.ID, body []byte) { p.muxes[i].receive(from, body) })
	}
	return p
}

func (p *pair) close() {
	for i := range p.muxes {
		_ = p.muxes[i].Shutdown()
		p.ports[i].Close()
	}
}

func (p *pair) dial(t *testing.T) (here, there net.Conn) {
	t.Helper()
	here, err := p.muxes[0].DialAddressTimeout(memberlist.Address{Name: transport.ID(2).String()}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return here, <-p.muxes[1].accepts
}

func TestAStreamCarriesMoreThanItsWindowBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		here, there := p.dial(t)
		want := bytes.Repeat([]byte("0123456789abcdef-"), 60_000) // a megabyte
		results := make(chan error, 2)
		go func() {
			got, err := io.ReadAll(io.LimitReader(there, int64(len(want))))
			if err == nil && !bytes.Equal(got, want) {
				err = errors.New("the bytes differ")
			}
			if err == nil {
				_, err = there.Write(want)
			}
			results <- errors.Join(err, there.Close())
		}()
		go func() {
			_, err := here.Write(want)
			var got []byte
			if err == nil {
				got, err = io.ReadAll(here) // to the other end's Close
			}
			if err == nil && !bytes.Equal(got, want) {
				err = errors.New("the bytes differ on the way back")
			}
			results <- errors.Join(err, here.Close())
		}()
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		for i, m := range p.muxes {
			if len(m.streams) != 0 {
				t.Errorf("mux %d still has %d streams", i, len(m.streams))
			}
		}
	})
}

func TestAWriterWaitsForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		here, there := p.dial(t)
		if err := here.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		n, err := here.Write(make([]byte, 10*window))
		if n != window || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Write = %d, %v after %v, want a window of %d and a timeout after 1s", n, err, time.Since(start), window)
		}
		if _, err := io.ReadFull(there, make([]byte, window)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := here.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if n, err := here.Write(make([]byte, 100)); n != 100 || err != nil {
			t.Errorf("after it was read: Write = %d, %v", n, err)
		}
	})
}

func TestReadEnds(t *testing.T) {
	tests := []struct {
		name string
		do   func(p *pair, here, there net.Conn)
		want error
	}{
		{"at the deadline", func(_ *pair, here, _ net.Conn) { _ = here.SetReadDeadline(time.Now().Add(time.Second)) }, os.ErrDeadlineExceeded},
		{"at a deadline that is over", func(_ *pair, here, _ net.Conn) { _ = here.SetDeadline(time.Now().Add(-time.Second)) }, os.ErrDeadlineExceeded},
		{"when this end closes", func(_ *pair, here, _ net.Conn) { _ = here.Close() }, net.ErrClosed},
		{"when the other end closes", func(_ *pair, _, there net.Conn) { _ = there.Close() }, io.EOF},
		{"at shutdown", func(p *pair, _, _ net.Conn) { _ = p.muxes[0].Shutdown() }, net.ErrClosed},
		{"when frames were lost", func(p *pair, _, there net.Conn) {
			p.hub.setCut(func(from, to transport.ID) bool { return from == 2 })
			_, _ = there.Write([]byte("lost"))
			p.hub.setCut(nil)
			_, _ = there.Write([]byte("not lost"))
		}, errGap},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair()
				defer p.close()
				here, there := p.dial(t)
				got := make(chan error, 1)
				go func() {
					_, err := here.Read(make([]byte, 1))
					got <- err
				}()
				synctest.Wait()
				tt.do(p, here, there)
				if err := <-got; !errors.Is(err, tt.want) {
					t.Errorf("Read = %v, want %v", err, tt.want)
				}
			})
		})
	}
}

func TestAStreamEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		here, there := p.dial(t)
		p.muxes[0].down(2)
		if _, err := here.Read(make([]byte, 1)); err == nil {
			t.Error("Read succeeds without a connection")
		}
		p.ports[0].Close()
		if n, err := there.Write([]byte("a")); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write without a connection = %d, %v, want ErrClosed", n, err)
		}
		if err := there.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("SetDeadline = %v, want ErrClosed", err)
		}
		if c, err := p.muxes[1].DialTimeout(address(1).String(), time.Second); err == nil {
			t.Errorf("DialTimeout without a connection = %v", c)
		}
		for i, m := range p.muxes {
			if len(m.streams) != 0 {
				t.Errorf("mux %d still has %d streams", i, len(m.streams))
			}
		}
	})
}

func TestAPeersStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		refused := 0
		for range 3 * maxPeerStreams {
			c, err := p.muxes[0].DialTimeout(address(2).String(), time.Second)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			_ = c.SetReadDeadline(time.Now())
			if _, err := c.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
				t.Fatal("the end of a refused stream came as its data's end before its deadline")
			}
			_ = c.SetReadDeadline(time.Time{})
			if _, err := c.Write([]byte("a")); errors.Is(err, io.ErrClosedPipe) {
				refused++
			}
		}
		if want := 2 * maxPeerStreams; refused != want {
			t.Errorf("%d streams refused, want %d", refused, want)
		}
		if got := len(p.muxes[1].accepts); got != maxPeerStreams {
			t.Errorf("%d streams accepted, want %d", got, maxPeerStreams)
		}
	})
}

func TestPacketsBeyondTheBoundAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		defer p.close()
		for range 2 * maxPackets {
			if _, err := p.muxes[0].WriteTo([]byte("ping"), address(2).String()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := len(p.muxes[1].packets); got != maxPackets {
			t.Errorf("%d packets wait, want %d", got, maxPackets)
		}
		first := <-p.muxes[1].packets
		if string(first.Buf) != "ping" || first.From != net.Addr(address(1)) {
			t.Errorf("the first packet is %q from %v", first.Buf, first.From)
		}
	})
}

func TestBadTargetsAreRefused(t *testing.T) {
	m := newMux(1, newHub().attach(env.Member{ID: 1}), slog.New(slog.DiscardHandler))
	for _, addr := range []memberlist.Address{
		{},
		{Name: "app-1"},
		{Name: "00000000000000000"},
		{Name: "0000000000000000"},
		{Name: "00000000000000AB"},
		{Addr: "127.0.0.1:80"},
		{Addr: "[fd6c:6f63:6b6d::]:1"},
		{Addr: "[fd6c:6f63:6b6e::1]:1"},
		{Addr: "[::1]"},
	} {
		if _, err := m.WriteToAddress([]byte("a"), addr); err == nil {
			t.Errorf("WriteToAddress(%+v) succeeds", addr)
		}
		if _, err := m.DialAddressTimeout(addr, 0); err == nil {
			t.Errorf("DialAddressTimeout(%+v) succeeds", addr)
		}
	}
	for _, size := range []int{0, maxPacket + 1} {
		if _, err := m.WriteTo(make([]byte, size), address(2).String()); err == nil {
			t.Errorf("a packet of %d bytes is sent", size)
		}
	}
}
