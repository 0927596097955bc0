// Package hexsum computes SHA-256 as hexadecimal digits.
package hexsum

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
)

// Of returns the SHA-256 of b as 64 hexadecimal digits in lower case.
func Of[T string | []byte](b T) string {
	sum := sha256.Sum256([]byte(b))
	return hex.EncodeToString(sum[:])
}

// File returns the SHA-256 of the content of a file.
func File(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}
