package filtertest

// Sender is the source of a program that sends the frames of a file (see Text) from the first
// network interface, again and again, each time with the number of the round.
const Sender = `package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

func main() {
	f, err := os.Open("/frames")
	if err != nil {
		panic(err)
	}
	var frames [][]byte
	for s := bufio.NewScanner(f); s.Scan(); {
		b, err := hex.DecodeString(s.Text())
		if err != nil {
			panic(err)
		}
		frames = append(frames, b)
	}
	var link net.Interface
	for link.Index == 0 {
		all, err := net.Interfaces()
		if err != nil {
			panic(err)
		}
		for _, i := range all {
			if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
				link = i
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0)
	if err != nil {
		panic(err)
	}
	fmt.Println("sending from", link.Name)
	for round := 1; ; round++ {
		for _, b := range frames {
			b[3], b[4], b[5] = byte(round>>16), byte(round>>8), byte(round)
			if err := syscall.Sendto(fd, b, 0, &syscall.SockaddrLinklayer{Ifindex: link.Index}); err != nil {
				fmt.Println(err)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}
`
