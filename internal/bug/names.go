package bug

// names are what the bugs are called outside of the code.
var names = [end]string{
	HostsAtTheEnd: "HostsAtTheEnd",
}
