package story

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmesh/mesh/ring"
)

// plan is what the mesh of a story is like.
type plan struct {
	servers  []string // they found the mesh; the first leads shard 0 at first, then the second
	first    []string // all hosts that are there from the beginning
	names    map[string]string
	shards   int
	replicas int
	ttl      time.Duration
	maxTTL   time.Duration
	later    bool
}

const meshForm = "mesh {hosts}[; clients {hosts}][; shards {n}][; replicas {n}][; ttl {time}][; max ttl {time}][; founded later]"

var (
	meshLine = regexp.MustCompile(`^mesh (.+)$`)
	hostName = regexp.MustCompile(`^[a-z][a-z0-9]*$`)
)

// mesh reads the sentence that every story begins with.
func (p *parser) mesh(text string) (act, error) {
	if p.story.plan != nil {
		return nil, errors.New("a story has one mesh")
	}
	parts := strings.Split(text, ";")
	pl := &plan{shards: 1, ttl: 3 * time.Second}
	var err error
	if pl.servers, err = p.declare(parts[0]); err != nil {
		return nil, err
	}
	for _, part := range parts[1:] {
		part = strings.TrimSpace(part)
		i := strings.LastIndexByte(part, ' ')
		key, value := part[:max(i, 0)], part[i+1:]
		if strings.HasPrefix(part, "clients ") {
			key = "clients"
		}
		switch key {
		case "clients":
			_, err = p.declare(strings.TrimPrefix(part, "clients "))
		case "shards":
			pl.shards, err = strconv.Atoi(value)
		case "replicas":
			pl.replicas, err = strconv.Atoi(value)
		case "ttl":
			pl.ttl, err = time.ParseDuration(value)
		case "max ttl":
			pl.maxTTL, err = time.ParseDuration(value)
		case "founded":
			pl.later = value == "later"
		default:
			err = fmt.Errorf("a mesh has no %q: see %q", part, meshForm)
		}
		if err != nil {
			return nil, err
		}
	}
	pl.first = slices.Clone(p.story.hosts)
	if pl.replicas == 0 {
		if pl.replicas = 3; len(pl.servers) < 3 && len(pl.first) > len(pl.servers) {
			pl.replicas = 1 // or the ring would want clients, too
		}
	}
	switch {
	case pl.shards < 1 || pl.shards > 4096:
		return nil, fmt.Errorf("shards %d: 1 to 4096", pl.shards)
	case pl.replicas < 1 || pl.replicas > 7 || pl.replicas%2 == 0:
		return nil, fmt.Errorf("replicas %d: 1, 3, 5 or 7", pl.replicas)
	}
	if pl.maxTTL == 0 {
		pl.maxTTL = pl.ttl
	}
	if err := pl.place(); err != nil {
		return nil, err
	}
	p.story.plan = pl
	return (*teller).found, nil
}

// declare adds hosts to the story.
func (p *parser) declare(text string) (all []string, err error) {
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		switch {
		case name == "and":
			continue
		case !hostName.MatchString(name):
			return nil, fmt.Errorf("%q is no name of a host: small letters and digits", name)
		case slices.Contains(p.story.hosts, name):
			return nil, fmt.Errorf("there are two hosts %q", name)
		}
		all = append(all, name)
		p.story.hosts = append(p.story.hosts, name)
	}
	if len(all) == 0 {
		return nil, errors.New("no hosts")
	}
	return all, nil
}

// The ring goes by the names of nodes. So that a story can say who leads whom, each node
// is called like its host, with a number behind it if need be, and the numbers are such
// that the ring says the same as the story.
const mostNames = 2000

// place finds the names of the first nodes, one after the other.
func (p *plan) place() error {
	want := p.servers[:min(p.replicas, len(p.servers))]
	ordered := min(len(want), 3)
	p.names = make(map[string]string)
	for _, host := range p.first {
		p.names[host] = host
	}
	for n, host := range want {
		placed := want[:n+1]
		sure := min(n+1, ordered)
		err := p.call(host, func(got []string) bool {
			return len(got) == len(want) && slices.Equal(got[:sure], placed[:sure]) &&
				!slices.ContainsFunc(placed[sure:], func(h string) bool { return !slices.Contains(got[:n+1], h) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// call finds a name for a node with which the ring's wish fits.
func (p *plan) call(host string, fits func(wish []string) bool) error {
	for i := range mostNames {
		p.names[host] = numbered(host, i)
		if fits(p.wish()) {
			return nil
		}
	}
	return fmt.Errorf("found no name for the node of %s that gives it its place on the ring", host)
}

// The ways in which a node may join.
const (
	joinAside   = ""        // shard 0 is not for it
	joinReplica = "replica" // it is to have a replica of shard 0, and not to lead it
	joinOwner   = "owner"   // it is to lead shard 0
)

// placeJoiner finds the name of a node that joins later.
func (p *plan) placeJoiner(host, as string) error {
	before := p.wish()
	return p.call(host, func(got []string) bool {
		switch as {
		case joinReplica:
			return got[0] == before[0] && slices.Contains(got, host)
		case joinOwner:
			return got[0] == host
		default:
			return slices.Equal(got, before)
		}
	})
}

func numbered(host string, i int) string {
	if i == 0 {
		return host
	}
	return fmt.Sprintf("%s.%d", host, i)
}

// wish returns the hosts on which the ring wants shard 0.
func (p *plan) wish() (hosts []string) {
	var members []ring.Member
	byName := make(map[string]string)
	for host, name := range p.names { // order-free: the ring sorts
		members = append(members, ring.Member{Name: name})
		byName[name] = host
	}
	for _, name := range ring.New(members, p.shards, p.replicas).Replicas(0) {
		hosts = append(hosts, byName[name])
	}
	return hosts
}

// key returns what a key of the story is called in its mesh: "k" as it is, "k@5" by a
// name that lies in shard 5.
func (p *plan) key(name string) string {
	base, sh, ok := at(name)
	if !ok {
		return name
	}
	for i := 0; ; i++ {
		if key := numbered(base, i); ring.Shard(key, p.shards) == sh {
			return key
		}
	}
}

// hasKey returns an error unless the mesh has the shard that a key is to lie in.
func (p *plan) hasKey(name string) error {
	if _, sh, ok := at(name); ok && sh >= p.shards {
		return fmt.Errorf("the mesh has no shard %d", sh)
	}
	return nil
}

// at takes "k@5" apart.
func at(name string) (base string, sh int, ok bool) {
	base, number, _ := strings.Cut(name, "@")
	n, err := strconv.ParseUint(number, 10, 31)
	return base, int(n), err == nil
}
