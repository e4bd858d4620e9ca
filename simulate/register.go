package simulate

// Register is a resource that is guarded by fencing tokens: it refuses a token
// lower than the highest that it has seen. A search names each register that never had
// anything to refuse: see [Fence].
//
//	if !w.Register("disk").Write(l.Token()) { … } // another caller has the lock by now
type Register struct {
	Highest uint64 // the highest token that it has seen
	Writes  int    // how many writes it was asked for, refused ones included
	Refused int    // how many of them it refused
}

// Write asks the register to take a write that shows token, and reports whether it does. A taken token becomes Highest.
func (r *Register) Write(token uint64) bool {
	r.Writes++
	if token < r.Highest {
		r.Refused++
		return false
	}
	r.Highest = token
	return true
}

// Register returns the register of that name, and makes it if there is none.
func (w *World) Register(name string) *Register {
	r := w.registers[name]
	if r == nil {
		r = &Register{}
		w.registers[name] = r
	}
	return r
}
