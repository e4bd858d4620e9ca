package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// network is a network of its own: a namespace for each process, and one for the bridge that connects them. All
// interfaces are in these namespaces, so nothing outside sees them, and all goes when they are deleted.
//
// Every namespace knows the hardware address of every other one by a permanent entry, so nobody asks for it. A frame
// is lost on its way from one to another while that entry names an address that nobody has. So each direction of
// each pair can be cut by itself, without a packet filter, and nobody is told: neither end gets an error.
type network struct {
	prefix string
	names  []string
	cuts   map[[2]string]int // how many faults cut a direction
}

const (
	prefixes = "lockmesh-chaos-"
	nobody   = "02:00:00:00:ff:ff" // no interface has this hardware address
	device   = "eth0"
)

// address returns the address of the process at a place; only within the namespaces of the network.
func address(i int) string { return fmt.Sprintf("10.77.0.%d", i+1) }

func hardware(i int) string { return fmt.Sprintf("02:00:00:00:00:%02x", i+1) }

// newNetwork makes a network for processes of these names. If it cannot, it leaves nothing behind, and the error
// says what is missing.
func newNetwork(names []string) (*network, error) {
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, errors.New("there is no ip command (iproute2)")
	}
	begin, err := startOf(os.Getpid())
	if err != nil {
		return nil, err
	}
	n := &network{prefix: fmt.Sprintf("%s%d-%s-", prefixes, os.Getpid(), begin), names: names, cuts: make(map[[2]string]int)}
	if err := n.make(); err != nil {
		n.close()
		return nil, fmt.Errorf("no network namespaces can be made here: %w", err)
	}
	return n, nil
}

func (n *network) make() error {
	hub := n.namespace("hub")
	if err := run("ip", "netns", "add", hub); err != nil {
		return err
	}
	if err := batch(hub, "link add br0 type bridge", "link set br0 up"); err != nil {
		return err
	}
	for i, name := range n.names {
		ns := n.namespace(name)
		if err := run("ip", "netns", "add", ns); err != nil {
			return err
		}
		port := fmt.Sprintf("p%d", i)
		if err := batch(hub,
			fmt.Sprintf("link add %s type veth peer name %s address %s netns %s", port, device, hardware(i), ns),
			fmt.Sprintf("link set %s master br0 up", port)); err != nil {
			return err
		}
		lines := []string{"link set lo up", fmt.Sprintf("addr add %s/24 dev %s", address(i), device), "link set " + device + " up"}
		for k := range n.names {
			if k != i {
				lines = append(lines, neighbour(k, hardware(k)))
			}
		}
		if err := batch(ns, lines...); err != nil {
			return err
		}
	}
	return nil
}

// namespace returns the name of a process's namespace.
func (n *network) namespace(name string) string { return n.prefix + name }

func neighbour(i int, hardware string) string {
	return fmt.Sprintf("neigh replace %s lladdr %s nud permanent dev %s", address(i), hardware, device)
}

// able tries out what the kernel can do to a link.
func (n *network) able() abilities {
	if _, err := exec.LookPath("tc"); err != nil {
		return abilities{}
	}
	a := abilities{
		narrow: n.link(n.names[0], narrowLink) == nil,
		slow:   n.link(n.names[0], slowLink) == nil,
	}
	_ = n.widen(n.names[:1])
	return a
}

// What tc is told of links that are worse than usual.
var (
	narrowLink = []string{"tbf", "rate", "256kbit", "burst", "4kb", "limit", "16kb"}
	slowLink   = []string{"netem", "delay", "60ms", "40ms", "loss", "5%", "duplicate", "1%"}
)

// link replaces how what a process sends is queued.
func (n *network) link(name string, how []string) error {
	return run("tc", append([]string{"-n", n.namespace(name), "qdisc", "replace", "dev", device, "root"}, how...)...)
}

// worsen makes the links of processes worse.
func (n *network) worsen(names, how []string) error {
	for _, name := range names {
		if err := n.link(name, how); err != nil {
			return err
		}
	}
	return nil
}

// widen makes links as they were.
func (n *network) widen(names []string) error {
	for _, name := range names {
		if err := run("tc", "-n", n.namespace(name), "qdisc", "del", "dev", device, "root"); err != nil {
			return err
		}
	}
	return nil
}

// cut loses all frames from some processes to others from now on, if by is 1, or undoes that, if it is -1.
func (n *network) cut(from, to []string, by int) error {
	for _, a := range from {
		var lines []string
		for _, b := range to {
			pair := [2]string{a, b}
			was := n.cuts[pair] > 0
			n.cuts[pair] += by
			i := slices.Index(n.names, b)
			switch is := n.cuts[pair] > 0; {
			case is && !was:
				lines = append(lines, neighbour(i, nobody))
			case was && !is:
				lines = append(lines, neighbour(i, hardware(i)))
			}
		}
		if len(lines) > 0 {
			if err := batch(n.namespace(a), lines...); err != nil {
				return err
			}
		}
	}
	return nil
}

// command returns the command that runs a program in a process's namespace. It is one process, whose ID stays
// the same.
func (n *network) command(name, program string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", n.namespace(name), program}, args...)...)
}

// perNamespace is where "ip netns exec" finds files that it puts in the place of those in /etc, by namespaces.
const perNamespace = "/etc/netns"

// hosts says to which places a host's name leads in a process's namespace, for processes that are started from now on.
func (n *network) hosts(name, host string, to ...string) error {
	dir := filepath.Join(perNamespace, n.namespace(name))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text := "127.0.0.1 localhost\n"
	for _, t := range to {
		text += address(slices.Index(n.names, t)) + " " + host + "\n"
	}
	return os.WriteFile(filepath.Join(dir, "hosts"), []byte(text), 0o644)
}

// forget deletes the files of a namespace.
func forget(namespace string) {
	_ = os.RemoveAll(filepath.Join(perNamespace, namespace))
	_ = os.Remove(perNamespace) // if nobody else has files there
}

// close deletes the network. The processes in it must have ended.
func (n *network) close() {
	for _, name := range append([]string{"hub"}, n.names...) {
		_ = run("ip", "netns", "del", n.namespace(name)) // it may never have been made
		forget(n.namespace(name))
	}
}

// sweep deletes what runs of this program that were killed have left behind: their namespaces, and first the
// processes in these, which may be stopped. It returns what it deleted.
func sweep() (swept []string) {
	out, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		return nil // newNetwork says why
	}
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, ours := strings.CutPrefix(name, prefixes)
		words := strings.Split(rest, "-")
		if !ours || len(words) != 3 {
			continue
		}
		pid, err := strconv.Atoi(words[0])
		if err != nil {
			continue
		}
		if begin, err := startOf(pid); err == nil && begin == words[1] {
			continue // that run goes on
		}
		pids, _ := exec.Command("ip", "netns", "pids", name).Output()
		for pid := range strings.FieldsSeq(string(pids)) {
			if p, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(p, syscall.SIGKILL)
			}
		}
		forget(name)
		if run("ip", "netns", "del", name) == nil {
			swept = append(swept, name)
		}
	}
	return swept
}

// startOf returns when a process that has not ended started, in ticks since the machine did. Together with its ID it
// names the process for good.
func startOf(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // behind the name, which may contain anything
	words := strings.Fields(rest)
	if len(words) < 20 || words[0] == "Z" { // a zombie has ended
		return "", fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	return words[19], nil
}

// batch runs several commands of ip in a namespace.
func batch(namespace string, lines ...string) error {
	cmd := exec.Command("ip", "-n", namespace, "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	return finish(cmd)
}

func run(program string, args ...string) error { return finish(exec.Command(program, args...)) }

func finish(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
