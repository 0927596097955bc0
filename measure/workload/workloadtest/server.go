package workloadtest

import (
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Loopback is an address of this machine's that no other tests use which run at
// the same time; on systems that have only one, that one.
func Loopback() netip.Addr {
	if runtime.GOOS != "linux" {
		return netip.MustParseAddr("127.0.0.1")
	}
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(1 + pid>>15&0x7f), byte(pid >> 7), byte(1 + pid&0x7f)})
}

// Stop has servers end by a signal, and waits until they have. patterns are of
// the files that hold their process numbers, which they remove last.
func Stop(t *testing.T, signal syscall.Signal, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			stop(t, signal, file)
		}
	}
}

func stop(t *testing.T, signal syscall.Signal, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil || pid < 2 {
		t.Fatalf("%s holds %q", file, b)
	}
	server, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Signal(signal); err != nil {
		t.Fatal(err)
	}
	// A database writes all that it has in memory to its disk first.
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(file); err != nil {
			return
		}
	}
	t.Errorf("process %d of %s does not end", pid, file)
}
