package story

import (
	"cmp"
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
	servers  []string       // the entries of the core, in the ring's order for shard 0: its first replicas, then the spares
	first    []string       // all hosts that are there from the beginning
	ports    map[string]int // of the servers
	shards   int
	replicas int
	ttl      time.Duration
	maxTTL   time.Duration
	later    bool
	keep     bool // each host has a state directory
}

const meshForm = "mesh {hosts}[; clients {hosts}][; shards {n}][; replicas {n}][; ttl {time}][; max ttl {time}][; founded later][; state directories]"

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
	pl := &plan{shards: 1, replicas: 3, ttl: 3 * time.Second}
	var err error
	if pl.servers, err = p.declare(parts[0]); err != nil {
		return nil, err
	}
	for _, part := range parts[1:] {
		part = strings.TrimSpace(part)
		i := strings.LastIndexByte(part, ' ')
		key, value := part[:max(i, 0)], part[i+1:]
		switch {
		case strings.HasPrefix(part, "clients "):
			key = "clients"
		case part == "founded later", part == "state directories":
			key = part
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
		case "founded later":
			pl.later = true
		case "state directories":
			pl.keep = true
		default:
			err = fmt.Errorf("a mesh has no %q: see %q", part, meshForm)
		}
		if err != nil {
			return nil, err
		}
	}
	pl.first = slices.Clone(p.story.hosts)
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

// The ring goes by the entries of the core. So that a story can say who leads whom, each server listens at a port
// such that the ring says the same as the story.
const (
	firstPort = 7400
	mostPorts = 2000
)

// place finds the ports of the servers, one after the other.
func (p *plan) place() error {
	p.ports = make(map[string]int)
	for _, host := range p.servers {
		p.ports[host] = firstPort
	}
	for n, host := range p.servers {
		for !slices.Equal(p.order()[:n+1], p.servers[:n+1]) {
			if p.ports[host]++; p.ports[host] == firstPort+mostPorts {
				return fmt.Errorf("found no port for the node of %s that gives it its place on the ring", host)
			}
		}
	}
	return nil
}

// address returns where a host's node can be dialled.
func (p *plan) address(host string) string {
	return fmt.Sprintf("%s:%d", host, cmp.Or(p.ports[host], firstPort))
}

// addresses returns where hosts' nodes can be dialled.
func (p *plan) addresses(hosts []string) (all []string) {
	for _, host := range hosts {
		all = append(all, p.address(host))
	}
	return all
}

// order returns the servers in the order in which the ring names them for shard 0.
func (p *plan) order() (hosts []string) {
	var entries []ring.Member
	for _, host := range p.servers {
		entries = append(entries, ring.Member{Name: p.address(host)})
	}
	for _, entry := range ring.New(entries, p.shards, len(entries)).Replicas(0) {
		host, _, _ := strings.Cut(entry, ":")
		hosts = append(hosts, host)
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
	key := base
	for i := 1; ring.Shard(key, p.shards) != sh; i++ {
		key = fmt.Sprintf("%s.%d", base, i)
	}
	return key
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
