package suite

import "net"

// Accept handles the connections of a server until the test ends: each has a goroutine of
// its own, which closes it after the function each. It closes l.
func Accept(t Reporter, l net.Listener, each func(net.Conn)) {
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				each(c)
			}()
		}
	}()
}
