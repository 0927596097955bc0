package main

import (
	"bytes"
	"context"
	"debug/pe"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/provision/driver/qemu"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/wire"
)

// wine runs the agent for Windows.
type wine struct {
	t              *testing.T
	program, agent string
	env            []string
}

// newWine builds the agent for Windows and an empty Windows; it skips the test without Wine.
func newWine(t *testing.T) wine {
	t.Helper()
	const program = "/usr/lib/wine/wine64"
	if _, err := os.Stat(program); err != nil || runtime.GOARCH != "amd64" {
		t.Skip("needs Wine: apt-get install wine64")
	}
	if testing.Short() {
		t.Skip("builds a program for Windows")
	}
	dir := t.TempDir()
	w := wine{t: t, program: program, agent: filepath.Join(dir, "agent.exe"),
		env: append(os.Environ(), "WINEPREFIX="+filepath.Join(dir, "prefix"), "WINEDEBUG=-all", "HOME="+dir)}
	build := exec.Command("go", "build", "-trimpath", "-o", w.agent, ".")
	build.Env = append(os.Environ(), "GOOS=windows", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.startServer(dir)
	if _, errs, code := w.wine("cmd", "/c", "exit 0"); code != 0 {
		t.Fatalf("the first command in an empty Windows: code %d: %s", code, errs)
	}
	// Go programs need this library, which Wine has since version 9 only.
	library := filepath.Join(dir, "prefix/drive_c/windows/system32/bcryptprimitives.dll")
	if _, err := os.Stat(library); err != nil {
		text := forwarder("bcryptprimitives.dll", "ProcessPrng", "advapi32.SystemFunction036")
		if err := os.WriteFile(library, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// startServer starts the process that all programs of this Windows share, and ends it after the
// test. Without it, the first program would start one. In Debian's Wine 8, both of them write the
// name of a folder into the file wineserver. Sometimes the name lacks its first letter, and
// the server does not end.
func (w wine) startServer(dir string) {
	w.t.Helper()
	prefix := filepath.Join(dir, "prefix")
	if err := os.Mkdir(prefix, 0o700); err != nil {
		w.t.Fatal(err)
	}
	server := exec.Command("/usr/lib/wine/wineserver", "-f", "-p") // in the foreground, without an end
	server.Env = w.env
	if err := server.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		end := exec.Command("/usr/lib/wine/wineserver", "-k", "-w")
		end.Env = w.env
		if err := end.Run(); err != nil {
			w.t.Errorf("wineserver -k -w: %v", err)
			server.Process.Kill()
		}
		_ = server.Wait() // its exit code says that it was ended
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		name, _ := os.ReadFile(filepath.Join(prefix, "wineserver"))
		if len(name) == len("wine-")+6 { // six random letters
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("wineserver has not written its folder's name, but %q", name)
		}
	}
}

// wine executes a program for Windows. Its output goes through files: processes of Wine that
// outlive it would hold pipes open.
func (w wine) wine(args ...string) (stdout []byte, stderr string, code int) {
	w.t.Helper()
	cmd := exec.Command(w.program, args...)
	cmd.Env = w.env
	var texts [2][]byte
	var files [2]*os.File
	for i := range files {
		f, err := os.CreateTemp(w.t.TempDir(), "")
		if err != nil {
			w.t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	cmd.Stdout, cmd.Stderr = files[0], files[1]
	if err := cmd.Run(); cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	for i, f := range files {
		text, err := os.ReadFile(f.Name())
		if err != nil {
			w.t.Fatal(err)
		}
		texts[i] = text
	}
	return texts[0], string(texts[1]), cmd.ProcessState.ExitCode()
}

// run executes the agent and returns what it printed, and its exit code.
func (w wine) run(args ...string) (stdout []byte, stderr string, code int) {
	w.t.Helper()
	return w.wine(append([]string{w.agent}, args...)...)
}

// read is run for a command that succeeds and prints JSON.
func (w wine) read(into any, args ...string) {
	w.t.Helper()
	out, errs, code := w.run(args...)
	if code != 0 {
		w.t.Fatalf("%q: code %d: %s", args, code, errs)
	}
	if err := json.Unmarshal(out, into); err != nil {
		w.t.Fatalf("%q: %v: %s", args, err, out)
	}
}

// The agent for Windows does its work, under Wine.
func TestWindowsAgentUnderWine(t *testing.T) {
	w := newWine(t)
	t.Run("facts", func(t *testing.T) {
		var fp facts.Fingerprint
		w.read(&fp, "probe", "fingerprint", "--json")
		for _, name := range []string{"kernel", "os", "cpu.model", "cpu.count", "memory", "wine"} {
			if fp.Facts[name] == "" {
				t.Errorf("%s is unknown: %q", name, fp.Unavailable[name])
			}
		}
		if fp.Facts["system"] != "windows" {
			t.Errorf("the system is %q", fp.Facts["system"])
		}
		var c facts.Counters
		w.read(&c, "probe", "counters")
		if c.CPU == nil || c.CPU.Busy() <= 0 || c.ContextSwitches != nil || c.Unavailable["context_switches"] == "" {
			t.Errorf("the counters are %+v", c)
		}
	})
	// The drive Z: of Wine is the root of this system.
	dir := "/Z:" + t.TempDir()
	for _, args := range [][]string{{"cpu", "time=100ms"}, {"memory", "time=100ms"}, {"crypto", "time=100ms"},
		{"spawn", "time=300ms"}, {"files", "time=300ms"}, {"files", "time=100ms", "op=seq-read", "size=1MiB"},
		{"files", "time=100ms", "op=rand-write", "size=1MiB"}, {"files", "time=100ms", "op=copy", "size=1MiB"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			work := func(more ...string) []string {
				return append(append([]string{"work", args[0], "--json", "--dir", dir}, more...), args[1:]...)
			}
			if _, errs, code := w.run(work("--stage", "prepare")...); code != 0 {
				t.Fatalf("prepare: code %d: %s", code, errs)
			}
			var r wire.Result
			w.read(&r, work()...)
			if r.Loop != args[0] || !r.Check.Verified || r.Work <= 0 || r.Usage == nil || r.Counters == nil {
				t.Errorf("the result is %+v", r)
			}
		})
	}
	t.Run("exec", func(t *testing.T) {
		var r wire.ExecResult
		w.read(&r, "exec", "--json", "--", "cmd", "/c", "echo out& echo err 1>&2& exit 3")
		if r.Code != 3 || strings.TrimSpace(string(r.Stdout)) != "out" || strings.TrimSpace(string(r.Stderr)) != "err" ||
			r.ElapsedNS <= 0 || r.Usage.MaxRSSBytes == nil {
			t.Errorf("the result is %+v", r)
		}
		if _, errs, code := w.run("exec", "--json", "--", "none"); code != wire.ExitNotFound {
			t.Errorf("a missing program: code %d: %s", code, errs)
		}
	})
	// A host in a channel, as in a guest of QEMU: programs of the system are found, and the
	// scratch folder is made twice.
	t.Run("serve", func(t *testing.T) {
		cmd := exec.Command(w.program, w.agent, "serve", "-")
		cmd.Env = w.env
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		defer context.AfterFunc(ctx, func() { cmd.Process.Kill() })()
		c, err := channel.Open(ctx, pipes{out, in}, channel.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var boot wire.BootReport
		if err := c.Call(ctx, "boot", nil, &boot); err != nil || boot.System != "windows" || boot.CPUs < 1 {
			t.Errorf("%+v, %v", boot, err)
		}
		for range 2 {
			if _, err := conn.Output(ctx, c, qemu.MakeScratch("windows")...); err != nil {
				t.Error(err)
			}
		}
		scratch := wire.GuestScratch + "/x"
		if err := c.Push(ctx, scratch, 0o600, strings.NewReader("pushed")); err != nil {
			t.Error(err)
		}
		var got bytes.Buffer
		if err := c.Pull(ctx, scratch, &got); err != nil || got.String() != "pushed" {
			t.Errorf("%q, %v", got.String(), err)
		}
		said, err := conn.Output(ctx, c, "cmd.exe", "/d", "/c", "if defined SystemRoot echo here")
		if err != nil || strings.TrimSpace(string(said)) != "here" {
			t.Errorf("programs have no SystemRoot: %q, %v", said, err)
		}
	})
	// A timeout ends what the program started, too.
	t.Run("tree", func(t *testing.T) {
		beat := filepath.Join(t.TempDir(), "beat")
		for _, timeout := range []string{"3s", "15s", "1m"} { // a busy machine may not start it earlier
			var r wire.ExecResult
			w.read(&r, "exec", "--json", "--timeout", timeout, "--", "cmd", "/c", `Z:`+strings.ReplaceAll(w.agent, "/", `\`),
				"subject", "beat", `Z:`+strings.ReplaceAll(beat, "/", `\`))
			if r.Code != 137 || r.Signal != "killed" {
				t.Errorf("code %d, signal %q: %s", r.Code, r.Signal, r.Stderr)
			}
			if _, err := os.Stat(beat); err == nil {
				break
			}
		}
		size := func() int64 {
			info, err := os.Stat(beat)
			if err != nil {
				t.Fatalf("the grandchild did not run: %v", err)
			}
			return info.Size()
		}
		// It writes every 5 ms as long as it lives.
		for before, end := size(), time.Now().Add(time.Minute); ; before = size() {
			time.Sleep(200 * time.Millisecond)
			if size() == before {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the grandchild lives on")
			}
		}
	})
}

// pipes is a connection of two.
type pipes struct {
	io.ReadCloser
	io.WriteCloser
}

func (p pipes) Close() error { return errors.Join(p.WriteCloser.Close(), p.ReadCloser.Close()) }

// forwarder returns a library for 64-bit Windows with one function, which another library
// has under another name.
//
// Source: PE Format, Microsoft: .edata section, Export Address Table, forwarder RVA.
func forwarder(library, name, target string) []byte {
	const headers, section, directory = 0x200, 0x1000, 40
	le := binary.LittleEndian
	libraryAt := section + directory + 4 + 4 + 2
	nameAt := libraryAt + len(library) + 1
	targetAt := nameAt + len(name) + 1
	end := targetAt + len(target) + 1
	var exports []byte
	for _, v := range []int{0, 0, 0, libraryAt, 1, 1, 1, section + directory, section + directory + 4,
		section + directory + 8, targetAt, nameAt} {
		exports = le.AppendUint32(exports, uint32(v))
	}
	exports = append(exports, "\x00\x00"+library+"\x00"+name+"\x00"+target+"\x00"...)
	head := make([]byte, 64)
	copy(head, "MZ")
	le.PutUint32(head[60:], 64)
	out := bytes.NewBuffer(append(head, "PE\x00\x00"...))
	optional := pe.OptionalHeader64{Magic: 0x20b, ImageBase: 0x180000000, SectionAlignment: section,
		FileAlignment: headers, MajorOperatingSystemVersion: 6, MajorSubsystemVersion: 6, SizeOfImage: 2 * section,
		SizeOfHeaders: headers, Subsystem: pe.IMAGE_SUBSYSTEM_WINDOWS_CUI, NumberOfRvaAndSizes: 16,
		DllCharacteristics: pe.IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE | pe.IMAGE_DLLCHARACTERISTICS_NX_COMPAT}
	optional.DataDirectory[0] = pe.DataDirectory{VirtualAddress: section, Size: uint32(end - section)}
	data := pe.SectionHeader32{Name: [8]uint8([]byte(".rdata\x00\x00")), VirtualSize: uint32(len(exports)),
		VirtualAddress: section, SizeOfRawData: headers, PointerToRawData: headers,
		Characteristics: pe.IMAGE_SCN_CNT_INITIALIZED_DATA | pe.IMAGE_SCN_MEM_READ}
	for _, part := range []any{pe.FileHeader{Machine: pe.IMAGE_FILE_MACHINE_AMD64, NumberOfSections: 1,
		SizeOfOptionalHeader: 240, Characteristics: pe.IMAGE_FILE_EXECUTABLE_IMAGE |
			pe.IMAGE_FILE_LARGE_ADDRESS_AWARE | pe.IMAGE_FILE_DLL}, optional, data} {
		_ = binary.Write(out, le, part) // a bytes.Buffer does not fail
	}
	pad := func(b []byte) []byte { return append(b, make([]byte, headers-len(b))...) }
	return append(pad(out.Bytes()), pad(exports)...)
}
