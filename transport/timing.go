package transport

import (
	"math/rand/v2"
	"time"
)

// timing holds every duration of a Transport. Tests shorten some.
type timing struct {
	dial      time.Duration // for TCP to connect
	handshake time.Duration // from there to the last Hello
	test      time.Duration // for the redial of a broken connection, as a whole
	retry     time.Duration // between the tries of such a redial, doubled each time
	pulse     time.Duration // between two looks at the connections
	silence   int           // pulses without a byte, after which a peer counts as lost
	stuck     int           // pulses that one write may take
	settled   time.Duration // a connection that lived that long was no accident
	backoff   time.Duration // before the second dial to a peer to be kept, doubled each time
	maxWait   time.Duration // between two dials
	duplicate time.Duration // how long a connection that the peer speaks of may take to appear
	leave     time.Duration // for each step of a goodbye
	grace     time.Duration // for the goodbyes under way at Close
}

// defaultTiming is for real networks. An idle peer is heard every other pulse at
// the latest, so five silent ones mean that two or three pings in a row were
// lost, and Lost is known 4 to 5 s after the last byte plus the redial: sooner
// would call peers lost whose host pauses them. A redial is answered within a
// round trip or two; 2 s allow for one lost SYN, which is repeated after 1 s. The
// longest wait is short enough to notice a healed partition at once in human
// terms, and a dial per 5 s costs a thousand-node fleet nothing.
func defaultTiming() timing {
	return timing{
		dial:      2 * time.Second,
		handshake: 5 * time.Second,
		test:      2 * time.Second,
		retry:     5 * time.Millisecond,
		pulse:     time.Second,
		silence:   5,
		stuck:     15,
		settled:   time.Second,
		backoff:   50 * time.Millisecond,
		maxWait:   5 * time.Second,
		duplicate: time.Second,
		leave:     time.Second,
		grace:     100 * time.Millisecond,
	}
}

// wait returns how long to wait before dial number tries (from 1), with jitter.
func (t timing) wait(tries int) time.Duration {
	d := t.maxWait
	if tries < 16 {
		d = min(d, t.backoff<<(tries-1))
	}
	return d/2 + rand.N(d/2+1)
}
