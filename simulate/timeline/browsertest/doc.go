// Package browsertest opens the pages that package timeline writes in a real browser,
// and uses them as a reader does. It is a module of its own, so that nobody else needs
// the packages that drive a browser.
//
// Its tests need Chromium or Chrome, under a usual name in PATH or named by $CHROMIUM. Without one
// they fail.
package browsertest
