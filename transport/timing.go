package transport

import (
	"math/rand/v2"
	"time"
)

// timing holds every duration of a Transport. Tests shorten some.
type timing struct {
	dial      time.Duration // for TCP to connect
	handshake time.Duration // from the TCP connection to the end of the handshake
	probe     time.Duration // for all redials of a broken connection together
	await     time.Duration // how long an end that was only dialled waits for its peer to dial again
	retry     time.Duration // between two redials of a broken connection, doubled each time
	pulse     time.Duration // between two checks of the connections
	silence   int           // pulses without a byte, after which a connection is shut
	stuck     int           // pulses that one batch may take
	stable    time.Duration // a connection that breaks sooner counts as a flap
	backoff   time.Duration // before the second dial to a peer that Connect keeps, doubled each time
	maxWait   time.Duration // between two such dials, at most
	leave     time.Duration // for each step of a goodbye
	grace     time.Duration // for the goodbyes under way at Close
}

// defaultTiming is for real networks. An idle peer sends at least a ping every other
// pulse, so five silent pulses mean that two or three pings in a row were lost. Lost is
// reported 5 to 6 s after the last byte, plus the redial; a shorter limit would report
// peers as lost whose host has merely paused them. A redial is answered within a round trip
// or two; 2 s allow for one lost SYN, which is repeated after 1 s. With the longest
// wait of 5 s, a person notices no delay after a partition heals, and a dial per 5 s
// costs a thousand-node fleet nothing.
func defaultTiming() timing {
	return timing{
		dial:      2 * time.Second,
		handshake: 5 * time.Second,
		probe:     2 * time.Second,
		await:     time.Second,
		retry:     time.Millisecond,
		pulse:     time.Second,
		silence:   5,
		stuck:     15,
		stable:    time.Second,
		backoff:   50 * time.Millisecond,
		maxWait:   5 * time.Second,
		leave:     time.Second,
		grace:     100 * time.Millisecond,
	}
}

// wait returns how long to wait after so many dials (from 1), with jitter.
func (t timing) wait(tries int) time.Duration {
	d := t.maxWait
	if tries < 16 {
		d = min(d, t.backoff<<(tries-1))
	}
	return d/2 + rand.N(d/2+1)
}
