package main

import (
	"bakeoff/conn"
	"bakeoff/conn/local"
)

// localHost is the machine that this program runs on.
func localHost() conn.Conn { return local.Conn{} }
