// Package members holds what a node believes of the other nodes of its mesh.
package members
