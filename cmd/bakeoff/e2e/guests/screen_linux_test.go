package guests

import (
	"bytes"
	"crypto/des"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bakeoff/provision/vm"
)

// redSector is a boot sector that fills the screen with red in mode 13h, color 4, and halts.
func redSector(t *testing.T) string {
	t.Helper()
	sector := make([]byte, 1<<20) // a smaller disk does not start
	copy(sector, []byte{
		0xb8, 0x13, 0x00, 0xcd, 0x10, // mov ax, 13h; int 10h
		0xb8, 0x00, 0xa0, 0x8e, 0xc0, // mov ax, a000h; mov es, ax
		0x31, 0xff, 0xb9, 0x00, 0xfa, // xor di, di; mov cx, 64000
		0xb0, 0x04, 0xf3, 0xaa, // mov al, 4; rep stosb
		0xf4, 0xeb, 0xfd, // hlt; jmp there
	})
	sector[510], sector[511] = 0x55, 0xaa
	file := filepath.Join(t.TempDir(), "red.raw")
	if err := os.WriteFile(file, sector, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// isRed tells whether nine tenths of a picture are red.
func isRed(t *testing.T, file string) bool {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := image.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	red, size := 0, p.Bounds()
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			if r, g, b, _ := p.At(x, y).RGBA(); r>>8 > 130 && g>>8 < 40 && b>>8 < 40 {
				red++
			}
		}
	}
	return red*10 > size.Dx()*size.Dy()*9
}

// passwordFile is a password in the form in which VNC clients keep it: encrypted with a key
// that all of them have. DES as VNC uses it takes the bits of each byte of a key in reverse.
func passwordFile(t *testing.T, password string) string {
	t.Helper()
	key := []byte{0xe8, 0x4a, 0xd6, 0x60, 0xc4, 0x72, 0x1a, 0xe0}
	c, err := des.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	var text [8]byte
	copy(text[:], password)
	c.Encrypt(text[:], text[:])
	return file(t, "passwd", string(text[:]))
}

// A VNC client takes a picture of a machine, with the password of the manifest only, and the
// picture shows what the machine does. The machine is reached at loopback alone.
func TestScreen(t *testing.T) {
	h := home(t)
	if _, err := exec.LookPath("vncsnapshot"); err != nil {
		t.Skip("needs vncsnapshot: apt-get install vncsnapshot")
	}
	text := `{"brand": "kvm", "alias": "red", "vnc_password": "secret", "ram": 64, "disks": [{"image": "disk:` +
		redSector(t) + `", "boot": true}]}`
	do(t, h, "create", "-f", file(t, "red.json", text))
	at := guest(t, h, "red").VNC
	address, port, err := net.SplitHostPort(at)
	if err != nil || address != "127.0.0.1" {
		t.Fatalf("the screen is at %q", at)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	shot := filepath.Join(t.TempDir(), "screen.png")
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		do(t, h, "screenshot", "red", shot)
		if isRed(t, shot) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the screen does not become red:\n%s", do(t, h, "logs", "red"))
		}
	}
	picture := filepath.Join(t.TempDir(), "vnc.jpg")
	take := func(password string) ([]byte, error) {
		return exec.Command("vncsnapshot", "-passwd", passwordFile(t, password), "127.0.0.1:"+strconv.Itoa(n-5900), picture).
			CombinedOutput()
	}
	if out, _ := take("wrong"); !strings.Contains(string(out), "authentication failed") {
		t.Errorf("with a wrong password: %s", out)
	}
	if out, err := take("secret"); err != nil || !isRed(t, picture) {
		t.Errorf("the client does not see the screen: %v\n%s", err, out)
	}
	// The port and the password change while it runs.
	listen := func() (net.Listener, string) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l, strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	busy, taken := listen()
	refused(t, h, 1, "Failed to find an available port", "update", "red", "vnc_password=wrong", "vnc_port="+taken)
	busy.Close()
	if out, err := take("secret"); err != nil || guest(t, h, "red").VNC != at {
		t.Errorf("after a refusal, the client does not see the screen: %v\n%s", err, out)
	}
	l, free := listen()
	l.Close()
	if _, errs, code := h.Bakeoff(t, limit, "vm", "update", "red", "vnc_password=other", "vnc_port="+free); code != 0 ||
		strings.Count(errs, "(live)") != 2 {
		t.Errorf("exit code %d, %s", code, errs)
	}
	if n, err = strconv.Atoi(free); err != nil || guest(t, h, "red").VNC != "127.0.0.1:"+free {
		t.Errorf("the screen is at %q", guest(t, h, "red").VNC)
	}
	if out, _ := take("secret"); !strings.Contains(string(out), "authentication failed") {
		t.Errorf("with the old password: %s", out)
	}
	if out, err := take("other"); err != nil || !isRed(t, picture) {
		t.Errorf("the client does not see the screen at the new port: %v\n%s", err, out)
	}
	if got := do(t, h, "sysrq", "red", "screenshot"); !strings.HasSuffix(got, "/screen.ppm") {
		t.Errorf("sysrq prints %q", got)
	} else if b, err := os.ReadFile(got); err != nil || !bytes.HasPrefix(b, []byte("P6\n")) {
		t.Errorf("sysrq writes %.20q, %v", b, err)
	}
	var pictures [2]struct{ UUID, File, Format string }
	decode(t, do(t, h, "sysrq", "red", "screenshot", "--json"), &pictures[0])
	decode(t, do(t, h, "screenshot", "red", shot, "--json"), &pictures[1])
	for i, want := range []string{"/screen.ppm", "/screen.png"} {
		if got := pictures[i]; got.UUID != guest(t, h, "red").UUID || !strings.HasSuffix(got.File, want) ||
			!filepath.IsAbs(got.File) || "."+got.Format != filepath.Ext(want) {
			t.Errorf("--json prints %+v", got)
		}
	}
	var nmi struct{ Guest vm.Guest }
	if decode(t, do(t, h, "sysrq", "red", "nmi", "--json"), &nmi); nmi.Guest.Alias != "red" {
		t.Errorf("sysrq --json prints %+v", nmi)
	}
	do(t, h, "sysrq", "red", "nmi")
	refused(t, h, 2, "must end in .png or .ppm", "screenshot", "red", "x.gif")
	for name, words := range map[string]string{`"brand": "microvm", "vnc_password": "x"`: "has no screen",
		`"brand": "kvm", "vnc_port": 80`: "begin at port 5900", `"brand": "kvm", "vga": "qxl"`: "no such adapter"} {
		refused(t, h, 1, words, "create", "-f", file(t, "bad.json", "{"+name+`, "kernel": "/boot/x"}`))
	}
	do(t, h, "update", "red", "vnc_port=-1")
	do(t, h, "reboot", "red", "-F")
	if g := guest(t, h, "red"); g.VNC != "" {
		t.Errorf("without a screen: %+v", g)
	}
	refused(t, h, 1, "a machine has a screen if", "screenshot", "red", shot)
	removeGuests(t, h)
	leavesNothing(t, h)
}
