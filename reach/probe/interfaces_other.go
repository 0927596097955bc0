//go:build !netbsd

package probe

import "net"

// Interfaces lists the network interfaces.
func Interfaces() ([]net.Interface, error) { return net.Interfaces() }
