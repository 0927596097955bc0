//go:build linux

package nsenter

// sysSetns is missing in package syscall, which is older.
const sysSetns = 346
