package nsenter

import "os"

// earlyClients is how many clients the init process serves before the other
// packages initialize. Then it also sets up the garbage collector, which until
// then has too little to collect to run.
const earlyClients = 256

// begun is the server that Early started.
var begun *Server

// Early does what the arguments of the process ask for, if that is to enter a
// place or to be a container's init process, and otherwise returns. It returns
// as well if main has to do it: a proxy, placed files, a report of wrong
// arguments.
func Early(args []string) {
	if len(args) < 2 {
		return
	}
	switch args[1] {
	case "enter":
		if e, err := Parse(args[2:]); err == nil && e.Socket == "" && len(e.Placed) == 0 {
			Exit(e.Run())
		}
	case "container-init":
		if s, err := Listen(args[2:], os.Stderr); err == nil {
			begun = s
			s.Serve(earlyClients)
		}
	}
}

// Begun returns the server that Early started, nil if it started none.
func Begun() *Server { return begun }
