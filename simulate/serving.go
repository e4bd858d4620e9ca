package simulate

// Serving returns the hosts on which a replica of the shard leads and serves.
func (w *World) Serving(shard int) (hosts []string) {
	for r := range w.replicas() {
		if r.Shard == shard && r.Serving {
			hosts = append(hosts, r.host.name)
		}
	}
	return hosts
}

// Queue returns the hosts whose nodes hold a key, in the order of the grants, and those
// that wait for it, the next one first. It is what the key's shard has decided so far:
// its clients may hear of it later.
//
//	holders, waiting := w.Queue("orders/42")
func (w *World) Queue(key string) (holders, waiting []string) {
	return w.history.checks.Observer().Queue(key)
}
