//go:build !linux

package testkit

import "syscall"

// setDeathSignal does nothing: only Linux can tie a child to its parent.
func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}
