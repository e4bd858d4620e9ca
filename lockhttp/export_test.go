package lockhttp

import "time"

// LeaseLeft returns for how much longer a client believes in what it holds.
func LeaseLeft(c *Client) time.Duration {
	until, _ := c.lease()
	return time.Until(until)
}
