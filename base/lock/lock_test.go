package lock

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestHeldAndReleased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}
	if h := HolderOf(path); h != (Holder{PID: os.Getpid(), Place: placeOf(l.f)}) {
		t.Errorf("holder is %+v, want this process %d", h, os.Getpid())
	}
	if _, err := Try(path); !errors.Is(err, ErrHeld) {
		t.Fatalf("second Try: %v, want ErrHeld", err)
	}
	if !Held(path) {
		t.Error("the lock is held, but reported as free")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := Wait(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Wait on a held lock: %v", err)
	}
	l.Release()
	if Held(path) || Held(path+".none") {
		t.Error("a free lock is reported as held")
	}
	l, err = Wait(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
}

// The lock of an open file leaves its content as it is.
func TestOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	l, err := Of(open())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Of(open()); !errors.Is(err, ErrHeld) {
		t.Errorf("a second lock: %v, want ErrHeld", err)
	}
	l.Release()
	if l, err = Of(open()); err != nil {
		t.Fatal(err)
	}
	l.Release()
	if text, err := os.ReadFile(path); err != nil || string(text) != "content" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

// Whoever asks whether a lock is held keeps nobody from taking it.
func TestAskingIsNotHolding(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var asking sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		asking.Go(func() {
			for ctx.Err() == nil {
				Held(path)
			}
		})
	}
	for n := range 2000 {
		l, err := Try(path)
		if err != nil {
			t.Errorf("try %d: %v", n, err)
			break
		}
		l.Release()
	}
	cancel()
	asking.Wait()
}

// A killed process holds nothing.
func TestDiesWithItsProcess(t *testing.T) {
	if path := os.Getenv("LOCK_CHILD"); path != "" {
		if _, err := Try(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".taken", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
	}
	path := filepath.Join(t.TempDir(), "lock")
	child := exec.Command(os.Args[0], "-test.run=^TestDiesWithItsProcess$")
	child.Env = append(os.Environ(), "LOCK_CHILD="+path)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path + ".taken"); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the child never took the lock")
		}
	}
	if _, err := Try(path); !errors.Is(err, ErrHeld) {
		t.Fatalf("while the child lives: %v, want ErrHeld", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	l, err := Try(path)
	if err != nil {
		t.Fatalf("after the child's death: %v", err)
	}
	l.Release()
}
