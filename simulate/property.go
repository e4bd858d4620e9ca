package simulate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lockmesh/mesh/simulate/timeline"
)

// Property is a claim about worlds, by a scenario or by the library's own code, with
// the evidence of one world.
type Property struct {
	Name string
	Kind PropertyKind
	// Asked is how often the world came to the place where the claim is made, and Met how
	// often the claim was true there.
	Asked, Met uint64
}

// Wanted reports whether a search with Plan.Wanted fails if no world meets the property: a claim that no
// world ever evaluated proves nothing. It is false for the library's own marks,
// which only "lockmesh simulate -marks" demands, and for registers, which need not have refused anything: see
// search.Report.Unfenced.
func (p Property) Wanted() bool { return p.Kind != Mark && p.Kind != Fence }

func (p Property) String() string {
	return fmt.Sprintf("%v %q: met %d of %d times", p.Kind, p.Name, p.Met, p.Asked)
}

// PropertyKind says what is claimed.
type PropertyKind string

// The kinds of properties. Always and Sometimes are claimed by the methods of [World] of the
// same name.
const (
	Expected  PropertyKind = "expected" // named by [World.Expect], and no world has come to the claim yet
	Always    PropertyKind = "always"
	Sometimes PropertyKind = "sometimes"
	Mark      PropertyKind = "mark"  // a rare situation in a mesh
	Fence     PropertyKind = "fence" // a [Register] refuses a write: Asked counts all writes to it
)

// Always states that ok holds whenever it is called, and otherwise fails the run at once.
// Format and args say what was found instead.
//
//	w.Always("the balance stays", sum == total, "it is %d, and was %d", sum, total)
func (w *World) Always(name string, ok bool, format string, args ...any) {
	if !w.meet(name, Always, ok) {
		w.Fail(fmt.Errorf("always %q: %s", name, fmt.Sprintf(format, args...)))
	}
}

// Sometimes states that cond is true here in some world, at some time: a search in which it
// never was has not tried hard enough.
//
//	w.Sometimes("two wait for the lock", waiting >= 2)
//	if errors.Is(err, mesh.ErrLost) {
//		w.Sometimes("a lock was lost at work", true)
//	}
func (w *World) Sometimes(name string, cond bool) { w.meet(name, Sometimes, cond) }

// Expect names properties beforehand, so that a search with Plan.Wanted also fails for those that none of its
// worlds ever evaluated. Above all it serves properties that are claimed only where they come about.
//
//	w.Expect("a lock was lost at work")
func (w *World) Expect(names ...string) {
	for _, name := range names {
		w.property(name, Expected)
	}
}

// properties returns what the world has to say of each property: those of its scenario,
// in the order in which they came up, its registers, by name, and then the library's own
// marks, met or not.
func (w *World) properties() []Property {
	all := make([]Property, 0, len(w.claims)+len(w.registers)+len(markNames))
	for _, p := range w.claims {
		all = append(all, *p)
	}
	for _, name := range slices.Sorted(maps.Keys(w.registers)) {
		r := w.registers[name]
		all = append(all, Property{fmt.Sprintf("register %q", name), Fence, uint64(r.Writes), uint64(r.Refused)})
	}
	for m, met := range w.marks.met {
		all = append(all, Property{mark(m).String(), Mark, met, met})
	}
	return all
}

// WorldOf returns the world that an actor's context belongs to, for code that gets
// nothing but the context.
//
//	simulate.WorldOf(ctx).Sometimes("a lock was lost at work", true)
func WorldOf(ctx context.Context) *World { return processOf(ctx, "WorldOf").world }

// meet counts one more look at a property, and returns holds.
func (w *World) meet(name string, kind PropertyKind, holds bool) bool {
	p := w.property(name, kind)
	p.Asked++
	if holds {
		p.Met++
	}
	broken := kind == Always && !holds
	if broken || holds && p.Met == 1 && kind != Always {
		m := timeline.Moment{Kind: timeline.Property, Host: lab, Text: fmt.Sprintf("%v %q", kind, name)}
		if a := w.current; a != nil {
			m.Host, m.Actor = a.process.host.name, a.name
		}
		if broken {
			m.Text += isBroken
		}
		w.record(m)
	}
	return holds
}

// property finds a property by its name. A name has one meaning.
func (w *World) property(name string, kind PropertyKind) *Property {
	for _, p := range w.claims {
		if p.Name != name {
			continue
		}
		switch {
		case p.Kind == Expected:
			p.Kind = kind
		case kind != p.Kind && kind != Expected:
			w.Fail(fmt.Errorf("simulate: property %q is said to be %v here, and %v elsewhere", name, kind, p.Kind))
		}
		return p
	}
	p := &Property{Name: name, Kind: kind}
	w.claims = append(w.claims, p)
	return p
}
