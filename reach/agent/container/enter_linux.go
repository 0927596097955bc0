package container

import (
	"bakeoff/reach/nsenter"
)

// Enter executes a program in the place that the flags describe, and so does
// not return; see nsenter.Parse. If that is impossible, it prints the reason on
// standard error and exits with 125, 126 (not executable) or 127 (not found);
// Entered reads that on the other side. With --proxy it stays, as the proxy
// itself (see proxy).
func Enter(args []string) error {
	e, err := nsenter.Parse(args)
	e.Place = placeAll
	switch {
	case err != nil:
	case e.Socket != "":
		if err = e.Await(); err == nil {
			err = proxy(e)
		}
	default:
		err = e.Run()
	}
	nsenter.Exit(err)
	return err
}
