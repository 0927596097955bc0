// Command subject is what the suite runs inside an environment: it counts
// CPUs, takes memory, fills files and serves.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(what string, args []string) error {
	switch what {
	case "cpus":
		fmt.Println(runtime.NumCPU())
	case "hog": // bytes
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		var held [][]byte
		for ; n > 0; n -= 1 << 20 {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			held = append(held, b)
		}
		fmt.Println("held", len(held), "MiB")
	case "fill": // file, bytes
		return fill(args[0], args[1])
	case "beat": // file
		for {
			f, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			f.Write([]byte("x"))
			f.Close()
			time.Sleep(5 * time.Millisecond)
		}
	case "serve": // address, text
		l, err := net.Listen("tcp", args[0])
		if err != nil {
			return err
		}
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			io.WriteString(c, args[1])
			c.Close()
		}
	}
	return nil
}

func fill(name, size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.Write(make([]byte, n)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}
