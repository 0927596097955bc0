// Package sysctl reads and changes the settings of a BSD's kernel by system calls: a guest
// whose only program is the agent does not have sysctl(8).
package sysctl

import (
	"errors"
	"syscall"
)

// maxValue bounds the value of a setting, in bytes.
const maxValue = 16 << 20

// wholeSetting reads a setting whose length is unknown. get makes the kernel write the setting
// into room, and returns how many bytes it has. Without room, get asks only for this number.
//
// Of some tables NetBSD tells no length: it writes as much as there is room for. tslog(4) does
// not check the room that it has, so there is twice as much as it needs. tslog(4) always claims
// to have filled the room, but the rest of the room stays zero. When asked for the length again,
// it answers, and says ENOMEM.
func wholeSetting(get func(room []byte) (int, error)) ([]byte, error) {
	length, err := get(nil)
	if err != nil && (!errors.Is(err, syscall.ENOMEM) || length <= 0) {
		return nil, err
	}
	for size := max(2*length, 64<<10); ; size *= 4 {
		room := make([]byte, size)
		n, err := get(room)
		full := errors.Is(err, syscall.ENOMEM) || err == nil && n == size && room[size-1] != 0
		if !full || size > maxValue {
			return room[:min(n, size)], err
		}
	}
}
