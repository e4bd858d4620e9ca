package browsertest

// Timelines that look like those of real runs. What makes them is a toy: nothing in it is how
// Lockmesh works.

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// sampleOptions say what kind of run it is. Equal options give equal timelines.
type sampleOptions struct {
	Seed     uint64
	Hosts    int
	Shards   int
	Keys     []string // none: "orders", "users", ...
	Workers  int      // on each host
	Duration time.Duration
	Pace     time.Duration // between two heartbeats of a leader; 0: none are sent
	Faults   time.Duration // between two faults, about; 0: none
	Violate  bool          // ends with two that hold one key
	Text     string        // what notes say, and part of all names: hostile texts go here
	Moments  int           // at most so many; 0: any number
}

// calm is a small run in which nothing goes wrong.
func calm() *timeline.Timeline {
	return makeSample(sampleOptions{Seed: 7, Hosts: 3, Shards: 1, Keys: []string{"orders"}, Workers: 1, Duration: 3 * time.Second, Moments: 40})
}

// violated is a run of a middling size with faults and a violation at its end.
func violated() *timeline.Timeline {
	return makeSample(sampleOptions{Seed: 42, Hosts: 5, Shards: 4, Workers: 2, Duration: 40 * time.Second, Pace: 300 * time.Millisecond, Faults: 4 * time.Second, Violate: true})
}

type run struct {
	sampleOptions
	t        *timeline.Timeline
	random   *rand.Rand
	now      time.Duration
	queue    queue
	order    int
	revision uint64
	leader   []int // by shard
	term     []uint64
	stopped  []bool         // by host: down or paused
	group    []int          // by host: those of different groups do not hear each other
	loss     float64        // of each frame
	holder   map[string]int // by key: the ID of the Held
	waiting  map[string][]func()
	over     bool
}

type task struct {
	at    time.Duration
	order int
	do    func()
}

type queue []task

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].at, q[j].at), cmp.Compare(q[i].order, q[j].order)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(task)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// makeSample makes a timeline.
func makeSample(o sampleOptions) *timeline.Timeline {
	r := &run{
		sampleOptions: o, random: rand.New(rand.NewPCG(o.Seed, 1)),
		t: &timeline.Timeline{
			Title:    fmt.Sprintf("seed %d, %d hosts", o.Seed, o.Hosts) + o.Text,
			Repeat:   fmt.Sprintf("go test ./simulate -run TestFreshSeeds/one -seed %d", o.Seed),
			Seed:     o.Seed,
			Duration: o.Duration,
		},
		stopped: make([]bool, o.Hosts), group: make([]int, o.Hosts), loss: .002,
		holder: map[string]int{}, waiting: map[string][]func(){}, revision: 30,
	}
	if len(r.Keys) == 0 {
		r.Keys = []string{"orders", "users", "billing/eu", "cron", "import"}
	}
	for i := range o.Hosts {
		name := string(rune('a' + i%26))
		if i >= 26 {
			name = fmt.Sprintf("n%02d", i)
		}
		r.t.Hosts = append(r.t.Hosts, name+o.Text)
	}
	r.begin()
	for len(r.queue) > 0 && !r.over {
		next := heap.Pop(&r.queue).(task)
		if next.at > o.Duration {
			break
		}
		r.now = next.at
		next.do()
	}
	if r.over {
		r.t.Duration = r.now
	}
	return r.t
}

func (r *run) begin() {
	for h := range r.Hosts {
		r.add(timeline.Moment{Kind: timeline.Up, Host: r.t.Hosts[h], Shard: -1})
	}
	r.leader, r.term = make([]int, r.Shards), make([]uint64, r.Shards)
	for s := range r.Shards {
		r.elect(0, s, s%r.Hosts)
		if r.Pace > 0 {
			r.after(r.jitter(r.Pace), func() { r.heartbeat(s) })
		}
	}
	for h := range r.Hosts {
		for w := range r.Workers {
			actor := fmt.Sprintf("worker%d", w+1)
			r.after(r.jitter(400*time.Millisecond), func() { r.work(h, actor) })
		}
	}
	if r.Faults > 0 {
		r.after(r.Faults, r.fault)
	}
	if r.Violate {
		r.after(r.Duration*9/10, r.violate)
	}
}

func (r *run) add(m timeline.Moment) int {
	if r.over {
		return len(r.t.Moments)
	}
	m.ID, m.At = len(r.t.Moments)+1, r.now
	r.t.Moments = append(r.t.Moments, m)
	r.over = m.ID == r.Moments
	return m.ID
}

func (r *run) after(d time.Duration, do func()) {
	r.order++
	heap.Push(&r.queue, task{r.now + d, r.order, do})
}

func (r *run) jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(r.random.Int64N(int64(d)))
}

// send sends a frame, and calls then with what arrives.
func (r *run) send(cause, from, to, shard int, text string, then func(arrived int)) {
	if r.stopped[from] {
		return
	}
	m := timeline.Moment{Kind: timeline.Sent, Cause: cause, Host: r.t.Hosts[from], Peer: r.t.Hosts[to], Shard: shard, Text: text}
	sent := r.add(m)
	why := ""
	switch {
	case r.group[from] != r.group[to]:
		why = "cut"
	case r.random.Float64() < r.loss:
		why = "link"
	}
	r.after(r.jitter(8*time.Millisecond), func() {
		m := timeline.Moment{Kind: timeline.Arrived, Cause: sent, Frame: sent, Host: m.Peer, Peer: m.Host, Shard: shard}
		if r.stopped[to] {
			why = "closed"
		}
		if why != "" {
			m.Kind, m.Text = timeline.Lost, why
			r.add(m)
			return
		}
		if arrived := r.add(m); then != nil {
			then(arrived)
		}
	})
}

func (r *run) elect(cause, shard, leader int) {
	r.leader[shard] = leader
	r.term[shard]++
	r.add(timeline.Moment{Kind: timeline.Role, Cause: cause, Host: r.t.Hosts[leader], Shard: shard, Role: "leader", Term: r.term[shard]})
	for i := 1; i < min(3, r.Hosts); i++ {
		h := (leader + i) % r.Hosts
		r.add(timeline.Moment{Kind: timeline.Role, Cause: cause, Host: r.t.Hosts[h], Shard: shard, Role: "follower", Term: r.term[shard]})
	}
}

func (r *run) heartbeat(shard int) {
	leader := r.leader[shard]
	for i := 1; i < min(3, r.Hosts); i++ {
		to := (leader + i) % r.Hosts
		r.send(0, leader, to, shard, "heartbeat", func(arrived int) {
			r.send(arrived, to, leader, shard, "heartbeat answered", nil)
		})
	}
	r.after(r.Pace, func() { r.heartbeat(shard) })
}

// work asks for a key, holds it for a while, and begins again.
func (r *run) work(host int, actor string) {
	again := func() { r.after(r.jitter(900*time.Millisecond), func() { r.work(host, actor) }) }
	if r.stopped[host] {
		again()
		return
	}
	i := min(r.random.IntN(len(r.Keys)), r.random.IntN(len(r.Keys)))
	key, shard := r.Keys[i], i%r.Shards
	who := timeline.Moment{Host: r.t.Hosts[host], Actor: actor, Shard: shard, Key: key}
	called := who
	called.Kind, called.Text = timeline.Called, "lock"
	id := r.add(called)
	if r.random.IntN(25) == 0 {
		note := who
		note.Kind, note.Cause, note.Text = timeline.Note, id, fmt.Sprintf("round %d", len(r.t.Moments))+r.Text
		r.add(note)
	}
	r.ask(id, host, shard, fmt.Sprintf("request %q", key), func(cause int) {
		r.enqueue(cause, key, shard, func() { r.hold(id, who, cause, host, again) })
	}, func(cause int) {
		refused := who
		refused.Kind, refused.Cause, refused.Begin, refused.Text = timeline.Refused, cause, id, "mesh: no quorum"+r.Text
		r.add(refused)
		again()
	})
}

// ask brings a request through the log of a shard, and calls ok or, at last, fail.
func (r *run) ask(cause, host, shard int, text string, ok, fail func(cause int)) {
	leader, answered := r.leader[shard], false
	r.after(2*time.Second, func() {
		if !answered && fail != nil && !r.stopped[host] {
			answered = true
			fail(cause)
		}
	})
	atLeader := func(arrived int) {
		for i := 1; i < min(3, r.Hosts); i++ {
			follower := (leader + i) % r.Hosts
			r.send(arrived, leader, follower, shard, "append 1", func(arrived int) {
				r.send(arrived, follower, leader, shard, "appended", func(arrived int) {
					if !answered {
						answered = true
						ok(arrived)
					}
				})
			})
		}
	}
	if leader == host {
		atLeader(cause)
		return
	}
	r.send(cause, host, leader, shard, text, atLeader)
}

func (r *run) enqueue(cause int, key string, shard int, grant func()) {
	r.waiting[key] = append(r.waiting[key], grant)
	r.depth(cause, key, shard)
	r.next(cause, key, shard)
}

func (r *run) depth(cause int, key string, shard int) {
	r.add(timeline.Moment{Kind: timeline.Depth, Cause: cause, Host: r.t.Hosts[r.leader[shard]], Shard: shard, Key: key, Depth: len(r.waiting[key])})
}

func (r *run) next(cause int, key string, shard int) {
	if r.holder[key] != 0 || len(r.waiting[key]) == 0 {
		return
	}
	grant := r.waiting[key][0]
	r.waiting[key] = r.waiting[key][1:]
	r.depth(cause, key, shard)
	r.holder[key] = -1
	grant()
}

// hold tells a client of its grant, and lets it hold the key for a while.
func (r *run) hold(called int, who timeline.Moment, cause, host int, again func()) {
	r.revision += 1 + r.random.Uint64N(4)
	token, leader := r.revision, r.leader[who.Shard]
	free := func(cause int) {
		r.holder[who.Key] = 0
		r.next(cause, who.Key, who.Shard)
		again()
	}
	granted := func(arrived int) {
		held := who
		held.Kind, held.Cause, held.Begin, held.Token = timeline.Held, arrived, called, token
		id := r.add(held)
		r.holder[who.Key] = id
		r.renew(id, host, who.Shard, who.Key)
		r.after(r.jitter(1500*time.Millisecond), func() {
			end := who
			end.Kind, end.Cause, end.Begin, end.Token = timeline.Unlocked, id, id, token
			if r.stopped[host] || r.group[host] != r.group[leader] {
				end.Kind, end.Text = timeline.HoldEnded, "lease ended"
			}
			ended := r.add(end)
			if end.Kind == timeline.HoldEnded {
				r.after(300*time.Millisecond, func() { free(ended) })
				return
			}
			r.send(ended, host, leader, who.Shard, fmt.Sprintf("unlock %d", token), nil)
			r.after(20*time.Millisecond, func() { free(ended) })
		})
	}
	if leader == host {
		granted(cause)
		return
	}
	sent := len(r.t.Moments)
	r.send(cause, leader, host, who.Shard, fmt.Sprintf("granted %d", token), granted)
	r.after(time.Second, func() { // lost: told again
		if r.holder[who.Key] == -1 && len(r.t.Moments) > sent {
			free(cause)
		}
	})
}

func (r *run) renew(held, host, shard int, key string) {
	r.after(300*time.Millisecond, func() {
		if r.holder[key] != held {
			return
		}
		leader := r.leader[shard]
		if leader != host {
			r.send(held, host, leader, shard, "renewal", func(arrived int) { r.send(arrived, leader, host, shard, "renewal answered", nil) })
		}
		r.renew(held, host, shard, key)
	})
}

// fault begins a fault, ends it after a while, and begins the next.
func (r *run) fault() {
	host := r.random.IntN(r.Hosts)
	name := r.t.Hosts[host]
	lasts := r.jitter(r.Faults * 2 / 3)
	var text string
	where := timeline.Lab
	begin, end := func(int) {}, func(int) {}
	process := func(kind timeline.Kind) func(int) {
		return func(cause int) {
			r.stopped[host] = kind == timeline.Down || kind == timeline.Paused
			r.add(timeline.Moment{Kind: kind, Cause: cause, Host: name, Shard: -1})
		}
	}
	switch r.random.IntN(5) {
	case 0:
		rest := append(append([]string{}, r.t.Hosts[:host]...), r.t.Hosts[host+1:]...)
		text = "partition " + name + " | " + strings.Join(rest, " ")
		begin = func(int) { r.group[host] = 1 }
		end = func(int) { r.group[host] = 0 }
	case 1:
		text, where = "pause "+name, name
		begin, end = process(timeline.Paused), process(timeline.Resumed)
	case 2:
		text, where = "crash "+name, name
		begin, end = process(timeline.Down), process(timeline.Up)
	case 3:
		text = "links: loss 80000 ppm, latency 12ms"
		begin, end = func(int) { r.loss = .08 }, func(int) { r.loss = .002 }
	default:
		other := r.t.Hosts[(host+1)%r.Hosts]
		text = "clocks of " + name + " " + other + " drift 9000 ppm"
	}
	if r.random.IntN(3) == 0 {
		r.add(timeline.Moment{Kind: timeline.Site, Host: name, Shard: -1, Text: "shard.replica.slowApply"})
	}
	if r.random.IntN(3) == 0 {
		r.add(timeline.Moment{Kind: timeline.Struck, Host: timeline.Lab, Shard: -1, Text: "reset " + name + " - " + r.t.Hosts[(host+1)%r.Hosts]})
	}
	id := r.add(timeline.Moment{Kind: timeline.Fault, Host: where, Shard: -1, Text: text})
	begin(id)
	r.after(700*time.Millisecond, func() { r.notice(id, host) })
	r.after(lasts, func() {
		ended := r.add(timeline.Moment{Kind: timeline.Ended, Cause: id, Begin: id, Host: where, Shard: -1})
		end(ended)
	})
	r.after(max(r.jitter(r.Faults), lasts+100*time.Millisecond), r.fault)
}

// notice lets the others see that a host does not answer, and elect somebody.
func (r *run) notice(cause, host int) {
	if !r.stopped[host] && r.group[host] == 0 {
		return
	}
	for i := 1; i < min(4, r.Hosts); i++ {
		r.add(timeline.Moment{Kind: timeline.News, Host: r.t.Hosts[(host+i)%r.Hosts], Shard: -1, Text: "hears that " + r.t.Hosts[host] + " is suspect"})
	}
	for s := range r.Shards {
		if r.leader[s] != host {
			continue
		}
		next, voter := (host+1)%r.Hosts, (host+2)%r.Hosts
		id := r.add(timeline.Moment{Kind: timeline.Role, Cause: cause, Host: r.t.Hosts[next], Shard: s, Role: "candidate", Term: r.term[s] + 1})
		r.send(id, next, voter, s, "vote", func(arrived int) {
			r.send(arrived, voter, next, s, "vote given", func(arrived int) { r.elect(arrived, s, next) })
		})
	}
}

// violate lets a second worker hold a key that is held, which ends the run.
func (r *run) violate() {
	key := r.Keys[0]
	first := r.holder[key]
	if first <= 0 || r.stopped[r.place(r.t.Moments[first-1].Host)] {
		r.after(50*time.Millisecond, r.violate)
		return
	}
	held := r.t.Moments[first-1]
	other := (r.place(held.Host) + 1) % r.Hosts
	for r.stopped[other] {
		other = (other + 1) % r.Hosts
	}
	who := timeline.Moment{Host: r.t.Hosts[other], Actor: "worker1", Shard: 0, Key: key}
	called := who
	called.Kind, called.Text = timeline.Called, "lock"
	id := r.add(called)
	leader := r.leader[0]
	site := r.add(timeline.Moment{Kind: timeline.Site, Cause: id, Host: r.t.Hosts[leader], Shard: 0, Text: "shard.table.forgetHolder"})
	r.after(12*time.Millisecond, func() {
		r.revision++
		second := who
		second.Kind, second.Cause, second.Begin, second.Token = timeline.Held, site, id, r.revision
		two := r.add(second)
		r.after(3*time.Millisecond, func() {
			r.add(timeline.Moment{
				Kind: timeline.Failure, Cause: two, Host: timeline.Lab, Shard: -1, Key: key,
				Text: fmt.Sprintf("G1 exclusion: at %v, more than %q allows believe that they hold it:\n\t%s/%s holds %q token %d since %v\n\t%s/%s holds %q token %d since %v",
					r.now, key, held.Host, held.Actor, key, held.Token, held.At, who.Host, who.Actor, key, second.Token, r.t.Moments[two-1].At) + r.Text,
			})
			r.over = true
		})
	})
}

func (r *run) place(host string) int {
	for i, name := range r.t.Hosts {
		if name == host {
			return i
		}
	}
	return -1
}
