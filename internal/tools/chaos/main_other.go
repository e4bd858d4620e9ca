//go:build !linux

package main

import "fmt"

func main() { fmt.Println("chaos was not run: it needs the network namespaces of Linux") }
