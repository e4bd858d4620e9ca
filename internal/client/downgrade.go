package client

// downgrade makes a writer's hold a reader's (P47). Its holder has ended the belief in the rest already. So from now on a reader's is what is
// reported to another generation, whether the table has heard of it or not: it may have, and have let other readers in.
func (l *lease) downgrade(c *Call) {
	c.Hold.request.Mode = Shared
	l.issue(c)
}

// dropDowngrades fails the Downgrades without an answer: the lease is to be closed.
func (l *lease) dropDowngrades(why error) {
	for _, c := range l.inOrder() {
		if c.Kind == Downgrade {
			l.remove(c)
			l.client.finish(c, why)
		}
	}
}
