package guests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/measure/webroot"
	"bakeoff/provision/vm"
	"bakeoff/reach/conn/sshtest"
)

// secondHome is another host: a home with a state of its own.
func secondHome(t *testing.T) e2e.Home {
	t.Helper()
	h := newHome(t)
	h.Env = append(h.Env, "BAKEOFF_CACHE="+t.TempDir()) // it has no image of the first one
	return h
}

// A guest that is sent to another host continues there: its disk has the same content, or its
// files, its manifest and its metadata. A stream that was cut or changed makes nothing.
func TestSendAndReceive(t *testing.T) {
	h, to := home(t), secondHome(t)
	web := webroot.Example().Home().Body
	uuids := map[string]string{
		"c": do(t, h, "run", service(t, "web"), "-p", "80", "--name", "c", "--brand", "docker"),
		"m": do(t, h, "run", service(t, "web"), "-p", "80", "--name", "m", "--accel", "tcg"),
	}
	do(t, h, "exec", "c", "--", "sh", "-c",
		"echo kept >/kept; rm /etc/hostname; rm -r /etc/apt; mkdir /etc/apt; touch /etc/apt/own")
	do(t, h, "update", "m", "-f", file(t, "u.json", `{"set_customer_metadata": {"greeting": "hello"}}`))
	page(t, h, "m") // it obeys its power button from then on
	for _, name := range []string{"c", "m"} {
		do(t, h, "create-snapshot", name, "left-out")
		stream := filepath.Join(t.TempDir(), "stream")
		out, err := os.Create(stream)
		if err != nil {
			t.Fatal(err)
		}
		c := h.Command("vm", "send", name)
		var said bytes.Buffer
		c.Stdout, c.Stderr = out, &said
		if err := c.Run(); err != nil {
			t.Fatalf("send: %v\n%s", err, said.String())
		}
		out.Close()
		if g := guest(t, h, name); g.State != vm.Stopped || g.Autoboot {
			t.Errorf("after send: %+v", g)
		}
		refuseDamaged(t, to, stream, uuids[name])
		c = to.Command("vm", "receive")
		if c.Stdin, err = os.Open(stream); err != nil {
			t.Fatal(err)
		}
		if text, err := c.CombinedOutput(); err != nil {
			t.Fatalf("receive: %v\n%s", err, text)
		}
		there, here := guest(t, to, name), guest(t, h, name)
		here.Autoboot = true // it was, until it was sent
		if there.UUID != uuids[name] || there.State != vm.Running || fmt.Sprint(there.Guest) != fmt.Sprint(here.Guest) {
			t.Errorf("sent\n%+v, received\n%+v", here, there)
		}
		if got := page(t, to, name); !bytes.Equal(got, web) {
			t.Errorf("it serves %q", got)
		}
	}
	got := do(t, to, "exec", "c", "--", "sh", "-c", "cat /kept; ls /etc/apt; ls /etc/hostname 2>&1 >/dev/null | wc -l")
	if got != "kept\nown\n1" {
		t.Errorf("the container has %q", got)
	}
	do(t, to, "stop", "m")
	at := uuids["m"]
	if text, err := exec.Command("qemu-img", "compare", "-f", "qcow2", "-F", "qcow2", diskOf(h, at), diskOf(to, at)).
		CombinedOutput(); err == nil || !bytes.Contains(text, []byte("Content mismatch")) {
		t.Errorf("the guest that was started has written nothing: %v %s", err, text)
	}
	removeGuests(t, to)
	leavesNothing(t, to)
	checkSSH(t, h, to, at)
	removeGuests(t, h)
	removeGuests(t, to)
	leavesNothing(t, h)
	leavesNothing(t, to)
}

// checkSSH sends a guest that is stopped to another host over a real SSH connection, which a
// shell of that host receives. The disks are equal.
func checkSSH(t *testing.T, h, to e2e.Home, uuid string) {
	t.Helper()
	server := sshtest.Start(t)
	line := []string{"env"}
	for _, v := range to.Env {
		if strings.HasPrefix(v, "BAKEOFF_") || strings.HasPrefix(v, "PATH=") || strings.HasPrefix(v, "HOME=") {
			line = append(line, "'"+v+"'")
		}
	}
	line = append(line, "'"+to.Command().Path+"'", "vm", "receive")
	send := h.Command("vm", "send", uuid)
	receive := exec.Command("ssh", "-F", server.Config, sshtest.Target, strings.Join(line, " "))
	var err error
	if receive.Stdin, err = send.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := send.Start(); err != nil {
		t.Fatal(err)
	}
	text, rerr := receive.CombinedOutput()
	if err := send.Wait(); err != nil || rerr != nil {
		t.Fatalf("send: %v, receive: %v\n%s", err, rerr, text)
	}
	if g := guest(t, to, uuid); g.State != vm.Configured || g.CustomerMetadata["greeting"] != "hello" {
		t.Errorf("received %+v", g)
	}
	if text, err := exec.Command("qemu-img", "compare", "-f", "qcow2", "-F", "qcow2", diskOf(h, uuid), diskOf(to, uuid)).
		CombinedOutput(); err != nil {
		t.Errorf("the disks differ: %v %s", err, text)
	}
}

// refuseDamaged receives streams that were cut or changed.
func refuseDamaged(t *testing.T, h e2e.Home, stream, uuid string) {
	t.Helper()
	whole, err := os.ReadFile(stream)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(whole)
	changed[len(changed)/2] ^= 1
	for what, b := range map[string][]byte{"nothing": nil, "half": whole[:len(whole)/2],
		"all but one byte": whole[:len(whole)-1], "a changed byte": changed, "more": append(bytes.Clone(whole), 'x')} {
		c := h.Command("vm", "receive")
		c.Stdin = bytes.NewReader(b)
		text, err := c.CombinedOutput()
		if err == nil || !bytes.Contains(text, []byte("stream")) {
			t.Errorf("%s: %v\n%s", what, err, text)
		}
		if got := do(t, h, "lookup", "uuid="+uuid); got != "" {
			t.Fatalf("%s made %s", what, got)
		}
	}
}
