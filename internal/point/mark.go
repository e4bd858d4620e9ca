package point

// Mark is a rare situation.
type Mark uint8

// The marks. New ones come before the end.
const (
	// LateUnlock: a repeated unlock finds that its token's hold is over, and that its
	// session holds the key anew.
	LateUnlock Mark = iota + 1

	endOfMarks
)

// markNames are what the marks are called in reports.
var markNames = [endOfMarks]string{
	LateUnlock: "a repeated unlock meets a newer hold of its session",
}
