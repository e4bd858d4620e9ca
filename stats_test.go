package mesh

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestAMemberStateIsText(t *testing.T) {
	for state, text := range map[MemberState]string{MemberAlive: "alive", MemberDead: "dead", MemberLeft: "left"} {
		b, err := json.Marshal(Member{Name: "ann", State: state})
		if want := `{"ID":"","Name":"ann","Addr":"","Zone":"","State":"` + text + `"}`; err != nil || string(b) != want {
			t.Errorf("a member that is %v: %s, %v, want %s", state, b, err, want)
		}
		m := Member{State: 99}
		if err := json.Unmarshal(b, &m); err != nil || m.State != state || state.String() != text {
			t.Errorf("read again: %v, %v, want %v", m.State, err, text)
		}
		counts := map[MemberState]int{state: 3}
		b, err = json.Marshal(counts)
		if want := `{"` + text + `":3}`; err != nil || string(b) != want {
			t.Errorf("as a key: %s, %v, want %s", b, err, want)
		}
	}
	if _, err := json.Marshal(MemberState(3)); !errors.Is(err, ErrInvalidOption) || MemberState(3).String() != "MemberState(3)" {
		t.Errorf("%v in JSON: %v, want ErrInvalidOption", MemberState(3), err)
	}
	for _, text := range []string{"", "Alive", "alive ", "MemberState(3)", "1"} {
		s := MemberDead
		if err := s.UnmarshalText([]byte(text)); !errors.Is(err, ErrInvalidOption) || s != MemberDead {
			t.Errorf("UnmarshalText(%q) = %v, and the state is %v", text, err, s)
		}
	}
	if err := json.Unmarshal([]byte("1"), new(MemberState)); err == nil {
		t.Error("a number was read as a state")
	}
}
