package mesh

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"reflect"
	"testing"
	"time"
)

// args returns arguments for a method. Contexts are ctx. The other arguments are valid if right is
// set, else zero. If option is set, a nil option is passed, else none.
func args(method reflect.Type, ctx context.Context, right, option bool) (all []reflect.Value) {
	for i := range method.NumIn() {
		in := method.In(i)
		v := reflect.Zero(in)
		switch {
		case method.IsVariadic() && i == method.NumIn()-1:
			if !option {
				continue
			}
			v = reflect.Zero(in.Elem())
		case in == reflect.TypeFor[context.Context]():
			if ctx != nil {
				v = reflect.ValueOf(ctx)
			}
		case !right:
		case in == reflect.TypeFor[time.Duration]():
			v = reflect.ValueOf(time.Second)
		case in.Kind() == reflect.String:
			v = reflect.ValueOf("k")
		case in.Kind() == reflect.Int64:
			v = reflect.ValueOf(int64(1))
		case in.Kind() == reflect.Uint64:
			v = reflect.ValueOf(uint64(1))
		case in == reflect.TypeFor[func(context.Context, *Lock) error]():
			v = reflect.ValueOf(func(context.Context, *Lock) error { return nil })
		case in.Kind() == reflect.Int:
			v = reflect.ValueOf(1)
		case in == reflect.TypeFor[OpFunc]():
			v = reflect.ValueOf(func(context.Context, *Operation) error { return nil })
		case in == reflect.TypeFor[[]string]():
			v = reflect.ValueOf([]string{"k"})
		case in == reflect.TypeFor[[]byte]():
			v = reflect.ValueOf([]byte("alive"))
		default:
			panic(fmt.Sprintf("no right argument for %v", in))
		}
		all = append(all, v)
	}
	return all
}

// errorOf returns the error among results, and whether there is one.
func errorOf(results []reflect.Value) (err error, ok bool) {
	n := len(results)
	if n == 0 || results[n-1].Type() != reflect.TypeFor[error]() {
		return nil, false
	}
	err, _ = results[n-1].Interface().(error)
	return err, true
}

// takesContext reports whether a method takes a context.
func takesContext(method reflect.Type) bool {
	for i := range method.NumIn() {
		if method.In(i) == reflect.TypeFor[context.Context]() {
			return true
		}
	}
	return false
}

// Zero and nil values of Lock, Session and Node, and a node that ended before it served, behave as what has ended: every method says so,
// with any arguments, and none panics.
func TestWhatNoCallReturnedIsOver(t *testing.T) {
	ended, err := Start([]string{"127.0.0.1:1"}, WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	ended.Close()
	fine := map[string]bool{"Node.Close": true, "Node.Leave": true, "Session.Close": true} // nil, as a second time
	for _, v := range []any{
		new(Lock), (*Lock)(nil), new(LockSet), (*LockSet)(nil), new(Session), (*Session)(nil), new(Node), (*Node)(nil), ended,
		new(WaitError), new(Member), new(MemberState), new(Health), new(Stats),
	} {
		whole := reflect.TypeOf(v)
		for i := range whole.NumMethod() {
			name := whole.Elem().Name() + "." + whole.Method(i).Name
			method := reflect.ValueOf(v).Method(i)
			for _, right := range []bool{false, true} {
				for _, ctx := range []context.Context{nil, context.Background()} {
					for _, option := range []bool{false, true} {
						results := method.Call(args(method.Type(), ctx, right, option))
						err, says := errorOf(results)
						if len(results) > 0 {
							if keys, ok := results[0].Interface().(iter.Seq2[KeyState, error]); ok {
								for _, err = range keys {
									says = true
								}
							}
						}
						closed, invalid := errors.Is(err, ErrClosed), errors.Is(err, ErrInvalidOption) || errors.Is(err, ErrInvalidKey)
						// A node that has been one looks at the arguments first; and k does not take the place of k.
						wrong := !right || v == any(ended) && (option || name == "Node.ChangeCore")
						switch {
						case !says, whole.Elem() == reflect.TypeFor[MemberState](): // which is a value
						case ctx == nil && takesContext(method.Type()):
							if !invalid {
								t.Errorf("%s without a context = %v, want ErrInvalidOption", name, err)
							}
						case fine[name]:
							if err != nil {
								t.Errorf("%s = %v, want nil", name, err)
							}
						case !closed && !(wrong && invalid):
							t.Errorf("%s = %v, want ErrClosed", name, err)
						}
					}
				}
			}
		}
	}

	var l Lock
	if ctx := context.Background(); l.Context().Err() == nil || l.WithContext(ctx).Err() == nil || closed(l.Lost()) || l.Key() != "" || l.Token() != 0 || !l.Deadline().IsZero() {
		t.Error("the zero Lock is held, or lost")
	}
	var s Session
	var n Node
	if !closed(s.Done()) || s.TTL() != 0 || !closed(n.Done()) || n.Name() != "" || n.Addr() != "" || n.Members() != nil || n.Health().Ready {
		t.Error("the zero Session lives, or the zero Node")
	}
	var wait WaitError
	if wait.Error() == "" || len(wait.Unwrap()) > 0 || errors.Is(&wait, ErrLocked) || errors.As(&wait, new(*fakeError)) {
		t.Errorf("the zero WaitError: %v", &wait)
	}
}

type fakeError struct{}

func (*fakeError) Error() string { return "" }

// A call with a nil context or a nil option returns an error: nothing is sent, and nothing has
// changed.
func TestNilArguments(t *testing.T) {
	n := join(t, nil)
	defer n.Close()
	ctx := context.Background()
	s, err := n.NewSession(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l, err := n.Lock(ctx, "held")
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := n.Lock(ctx, "fixed", MaxHold(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	sent := n.Stats().Acquires
	for _, v := range []any{n, s, l, fixed} {
		whole := reflect.TypeOf(v)
		for i := range whole.NumMethod() {
			name := whole.Elem().Name() + "." + whole.Method(i).Name
			method := reflect.ValueOf(v).Method(i)
			if !takesContext(method.Type()) {
				continue
			}
			results := method.Call(args(method.Type(), nil, true, false))
			err, says := errorOf(results)
			if ended, ok := results[0].Interface().(context.Context); ok && !says {
				err = context.Cause(ended)
			}
			if keys, ok := results[0].Interface().(iter.Seq2[KeyState, error]); ok {
				for _, err = range keys {
				}
			}
			if !errors.Is(err, ErrInvalidOption) {
				t.Errorf("%s without a context = %v, want ErrInvalidOption", name, err)
			}
			if method.Type().IsVariadic() {
				if err, _ := errorOf(method.Call(args(method.Type(), ctx, true, true))); !errors.Is(err, ErrInvalidOption) {
					t.Errorf("%s with a nil option = %v, want ErrInvalidOption", name, err)
				}
			}
		}
	}
	if n.Err() != nil || s.Err() != nil || l.Err() != nil || n.Stats().Acquires != sent {
		t.Errorf("afterwards: node %v, session %v, lock %v, %d calls more", n.Err(), s.Err(), l.Err(), n.Stats().Acquires-sent)
	}
}
