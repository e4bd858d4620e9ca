package core

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/founding"
)

// Promise: C5: what a table says while MaxTTL changes: what leases may be taken, and how long quiet times are. Nothing else
// changes, nor does the table before.
func TestMaxTTLChanges(t *testing.T) {
	type params = founding.Params
	const short, mid, long = 10 * time.Second, 30 * time.Second, time.Minute
	set := func(d time.Duration) func(*Table) (*Table, error) {
		return func(t *Table) (*Table, error) { return t.SetMaxTTL(d) }
	}
	vacant := serving("abc", 1, 2)
	vacant.Params.Raise, vacant.Seats[2].Node.ID = long, 0
	if _, err := vacant.Raise(); err != errVacant {
		t.Errorf("an incarnation without a seat may know of no raise: %v", err)
	}
	for _, tt := range []struct {
		name   string
		params params
		change func(*Table) (*Table, error)
		want   params
		err    error
	}{
		{"a raise is noted", params{MaxTTL: short}, set(long), params{MaxTTL: short, Raise: long, Changed: true}, nil},
		{"and comes into force", params{MaxTTL: short, Raise: long, Changed: true}, (*Table).Raise, params{MaxTTL: long, Changed: true}, nil},
		{"once", params{MaxTTL: long, Changed: true}, (*Table).Raise, params{}, errNoRaise},
		{"the same raise", params{MaxTTL: short, Raise: long}, set(long), params{}, errSameTTL},
		{"another one in its place", params{MaxTTL: short, Raise: long}, set(mid), params{MaxTTL: short, Raise: mid, Longest: long, Changed: true}, nil},
		{"a longer one in its place", params{MaxTTL: short, Raise: mid}, set(long), params{MaxTTL: short, Raise: long, Changed: true}, nil},
		{"a raise is taken back", params{MaxTTL: short, Raise: long}, set(short), params{MaxTTL: short, Longest: long, Changed: true}, nil},
		{"a lowering is in force at once", params{MaxTTL: long}, set(short), params{MaxTTL: short, Longest: long, Changed: true}, nil},
		{"and counts for quiet times later", params{MaxTTL: short, Longest: long, Changed: true}, (*Table).Outlive, params{MaxTTL: short, Changed: true}, nil},
		{"once", params{MaxTTL: short, Changed: true}, (*Table).Outlive, params{}, errOutlast},
		{"it is as it was", params{MaxTTL: short}, set(short), params{}, errSameTTL},
		{"it is as it was, and longer leases may last", params{MaxTTL: short, Longest: long}, set(short), params{}, errSameTTL},
		{"a second lowering", params{MaxTTL: mid, Longest: long}, set(short), params{MaxTTL: short, Longest: long, Changed: true}, nil},
		{"a raise after a lowering", params{MaxTTL: short, Longest: mid}, set(long), params{MaxTTL: short, Raise: long, Changed: true}, nil},
		{"and to less than it was", params{MaxTTL: short, Longest: long}, set(mid), params{MaxTTL: short, Raise: mid, Longest: long, Changed: true}, nil},
		{"which comes into force", params{MaxTTL: short, Raise: mid, Longest: long}, (*Table).Raise, params{MaxTTL: mid, Longest: long}, nil},
	} {
		table, before := serving("abc", 1, 2, 3), serving("abc", 1, 2, 3)
		table.Params, before.Params = tt.params, tt.params
		got, err := tt.change(table)
		switch {
		case !errors.Is(err, tt.err) || (got == nil) != (err != nil):
			t.Errorf("%s: %v, want %v", tt.name, err, tt.err)
		case err == nil:
			want := *before
			want.Stamp, want.Params = before.Stamp.Next(), tt.want
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("%s: %+v, want %+v", tt.name, got.Params, tt.want)
			}
		}
		if !reflect.DeepEqual(table, before) {
			t.Errorf("%s: the table before is %+v now", tt.name, table)
		}
	}
}
