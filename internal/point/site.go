package point

// Site is a fault point.
type Site uint8

// The sites: what a simulation may do there. Each is something that a slow, small or
// unlucky machine does by itself. New ones come before the end.
const (
	// DropRenewal: a renewal is not sent this time.
	DropRenewal Site = iota + 1

	endOfSites
)

// siteNames are what the sites are called in reports and on the command line.
var siteNames = [endOfSites]string{
	DropRenewal: "drop-renewal",
}
