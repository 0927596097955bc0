package probe

import (
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"
)

// instructions records the instruction sets that programs use here. They can
// differ although the processor is the same: a kernel that does not save the
// AVX registers hides them, a runtime avoids what it does not trust on a
// system, and a variable of the environment switches sets off. isa.go is what
// Go's runtime uses, isa.openssl what OpenSSL does.
func (c *collector) instructions() {
	c.set("isa.go", goInstructions(), "golang.org/x/sys/cpu knows no features of "+runtime.GOARCH)
	if _, err := exec.LookPath("openssl"); err != nil {
		c.set("isa.openssl", "", "openssl is not in PATH")
		return
	}
	c.set("isa.openssl", parseCPUSettings(askAll("openssl", "info", "-cpusettings")),
		"this openssl has no command info -cpusettings")
}

// goInstructions lists the features of the processor that Go's runtime uses, in
// order. x/sys/cpu detects them as the runtime does, with the same exceptions
// for single systems, and obeys GODEBUG=cpu.NAME=off.
func goInstructions() string {
	switch runtime.GOARCH {
	case "amd64", "386":
		return features(cpu.X86)
	case "arm64":
		return features(cpu.ARM64)
	case "riscv64":
		return features(cpu.RISCV64)
	case "ppc64le":
		return features(cpu.PPC64)
	case "s390x":
		return features(cpu.S390X)
	case "loong64":
		return features(cpu.Loong64)
	}
	return ""
}

// features lists the fields Has… and Is… that are true, without the prefix and
// in lower case.
func features(set any) string {
	v := reflect.ValueOf(set)
	var names []string
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		short := strings.TrimPrefix(strings.TrimPrefix(name, "Has"), "Is")
		if short != name && v.Field(i).Kind() == reflect.Bool && v.Field(i).Bool() {
			names = append(names, strings.ToLower(short))
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// parseCPUSettings returns what `openssl info -cpusettings` prints, such as
// "OPENSSL_ia32cap=0xfffa3203078bffff:0x405fc6f1bf07ab"; "" if it is something
// else. The words are CPUID's as OpenSSL uses them: without AVX if the system
// does not save its registers, and with what the variable of that name changed.
//
// Source: OPENSSL_ia32cap(3).
func parseCPUSettings(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, "=")
		if ok && strings.HasPrefix(name, "OPENSSL_") && !strings.ContainsAny(name, " \t") && value != "" {
			return line
		}
	}
	return ""
}
