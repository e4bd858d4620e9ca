// Package story plays scenarios that are written as text: what happens to a small mesh,
// which caller wants which lock, and what must come of it. A story is true for every seed; what
// it leaves open, above all how long each message takes, the seed decides.
//
//	# Promise: G5, a holder that is cut off stops before the key is handed on.
//	# Method:  ann holds k and is cut off; bob waits.
//
//	mesh owner heir third; clients ann bob; ttl 3s
//	----
//	founded; owner leads
//
//	ann locks k
//	bob asks for k
//	----
//	ann holds k
//
//	isolate ann
//	until bob holds k, within 6s
//	ann must have lost k before bob had it (G5)
//
// [Parse] reads a story, and its errors name file and line. [Story.Play] plays it, in a
// world of package simulate over real nodes, and says what failed: a checker's complaint,
// a sentence that did not come true, or an answer that is not the one written down. When
// the story is told, all faults end, every caller unlocks or gives up, and every call must
// end in time; then the whole history is judged.
//
// [MANUAL.md] describes the language: every sentence, condition and name of a message.
//
// [MANUAL.md]: https://github.com/lockmesh/mesh/blob/main/simulate/story/MANUAL.md
package story
