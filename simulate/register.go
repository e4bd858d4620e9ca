package simulate

// Register is a resource that is guarded by fencing tokens: it refuses a token
// lower than the highest that it has seen. A search names each register that never had
// anything to refuse: see [Fence].
//
//	if !w.Register("disk").Write(l.Token()) { … } // another caller has the lock by now
type Register struct {
	Highest uint64 // the highest token that it has seen
	Writes  int    // how many it was asked for
	Refused int    // how many of them it refused
}

// Write reports whether the register takes a write that shows token.
func (r *Register) Write(token uint64) bool {
	r.Writes++
	if token < r.Highest {
		r.Refused++
		return false
	}
	r.Highest = token
	return true
}

// Register returns the register of that name.
func (w *World) Register(name string) *Register {
	r := w.registers[name]
	if r == nil {
		r = &Register{}
		w.registers[name] = r
	}
	return r
}
