//go:build v2

package main

import "io"

// count counts the bytes that begin a word.
func count(r io.Reader) (n int, err error) {
	buf, inside := make([]byte, 64<<10), false
	for {
		k, err := r.Read(buf)
		for _, c := range buf[:k] {
			space := c == ' ' || c >= '\t' && c <= '\r'
			if !space && !inside {
				n++
			}
			inside = !space
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
