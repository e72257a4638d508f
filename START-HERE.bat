@echo off
rem Installs Stratum into this folder (.venv) and starts it. Nothing outside the folder is changed.
rem A second run skips what is already there (kept in .venv\stratum-installed).
rem Delayed expansion stays off: an exclamation mark in the path would break it.
setlocal EnableExtensions DisableDelayedExpansion
title Stratum

set "MODE=serve"
set "SLOW=no"
set "START=yes"
set "QUESTION="
:next_option
if "%~1"=="" goto options_done
if /i "%~1"=="--demo" (set "MODE=demo" & shift & goto next_option)
if /i "%~1"=="--test" (set "MODE=test" & shift & goto next_option)
if /i "%~1"=="--slow" (set "SLOW=yes" & shift & goto next_option)
if /i "%~1"=="--no-start" (set "START=no" & shift & goto next_option)
if /i "%~1"=="--prompt" (set "QUESTION=%~2" & shift & shift & goto next_option)
if /i "%~1"=="--help" goto usage
if /i "%~1"=="-h" goto usage
>&2 echo setup: unknown option %1. Type START-HERE.bat --help for the list.
exit /b 2

:usage
echo usage: START-HERE.bat [MODE] [OPTIONS]
echo.
echo   (no mode)      install, then start the server with the bundled model
echo   --demo         install, show the bundled model at work: a meaning, a copy, a tool call
echo   --test         install with the tools for development, check and test (--slow: slow tests too)
echo   --prompt TEXT  with --demo: ask this one question instead
echo   --no-start     install only
exit /b 0

:options_done
set "ROOT=%~dp0"
if "%ROOT:~0,2%"=="\\" (
  set "WHY=Stratum cannot run from a network folder. Copy this folder to a drive of this PC, such as C:\Stratum, and start again."
  goto fail
)
if exist "%ROOT%pyproject.toml" goto unpacked
set "WHY=Some files are missing here: this looks like the inside of a zip. Extract the whole zip to a folder first, then start START-HERE.bat there."
goto fail
:unpacked
cd /d "%ROOT%"
if not exist ".state" mkdir ".state"
if not exist ".state" (
  set "WHY=This folder cannot be written to. Move it to a place that belongs to you, such as your Documents, and start again."
  goto fail
)
set "LOG=%ROOT%.state\setup.log"
type nul > "%LOG%"

rem Stratum brings its own pins; everything that uv fetches stays inside this folder.
set "PIP_REQUIRE_VIRTUALENV="
set "PIP_CONSTRAINT="
set "PIP_TARGET="
set "PIP_USER="
set "PYTHONHOME="
set "PYTHONPATH="
set "PIP_DISABLE_PIP_VERSION_CHECK=1"
set "PYTHONUTF8=1"
set "UV_PYTHON_INSTALL_DIR=%ROOT%.state\python"
set "UV_CACHE_DIR=%ROOT%.state\uv-cache"
set "UV_PYTHON_INSTALL_REGISTRY=0"
set "VENV=%ROOT%.venv"
set "PYTHON=%VENV%\Scripts\python.exe"
set "INSTALLED=%VENV%\stratum-installed"
set "MADE=%VENV%\stratum-made"
set "PROOF=import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))"

rem uv: the copy that a release brings, else one on the PATH, else none (then pip does the work).
set "UV="
if exist "%ROOT%bin\uv.exe" set "UV=%ROOT%bin\uv.exe"
if defined UV goto have_uv
uv --version >nul 2>&1
if not errorlevel 1 set "UV=uv"
:have_uv

rem One whose making was interrupted has a Python and no pip: it is made anew.
if not exist "%MADE%" if not exist "%INSTALLED%-base" if not exist "%INSTALLED%-dev" goto make_venv
if not exist "%PYTHON%" goto make_venv
"%PYTHON%" -c "%PROOF%" >>"%LOG%" 2>&1
if not errorlevel 1 goto have_venv
:make_venv
if exist "%VENV%" rmdir /s /q "%VENV%"
if not defined UV goto own_python
echo Preparing Python 3.12 ...
"%UV%" venv -q --seed --python 3.12 "%VENV%" >>"%LOG%" 2>&1
if not errorlevel 1 goto have_venv
if exist "%VENV%" rmdir /s /q "%VENV%"

:own_python
rem A Python proves itself by running: the Store's alias is found by "where" and yet is none.
set "FOUND="
call :try_python py -3.12
call :try_python py -3.13
call :try_python py -3.11
call :try_python python
for %%V in (312 313 311) do call :try_folder "%LocalAppData%\Programs\Python\Python%%V\python.exe"
for %%V in (312 313 311) do call :try_folder "%ProgramFiles%\Python%%V\python.exe"
if defined FOUND goto create
set "WHY=Stratum needs Python 3.11, 3.12 or 3.13 and found none. Type this in a terminal, then start again: winget install --id Python.Python.3.12 --scope user"
goto fail
:create
echo Creating .venv ...
%FOUND% -m venv "%VENV%" >>"%LOG%" 2>&1
if not errorlevel 1 goto have_venv
set "WHY=Python could not create the folder .venv (free space? write permission?)."
goto fail

:have_venv
type nul > "%MADE%"
if /i "%MODE%"=="test" goto install_dev
call :is_installed dev
if not errorlevel 1 goto ready
call :install_set base "Installing the engine (about 250 MB on disk) ..."
if errorlevel 1 goto fail
goto ready
:install_dev
call :install_set dev "Installing the engine and the tools for development ..."
if errorlevel 1 goto fail

:ready
if /i "%START%"=="yes" goto run
echo Installed. Start the server with: .venv\Scripts\python.exe -m engine serve
exit /b 0
:run
if /i "%MODE%"=="demo" goto demo
if /i "%MODE%"=="test" goto test
"%PYTHON%" -m engine serve
set "STATUS=%errorlevel%"
call :hold_window
exit /b %STATUS%

:demo
echo This is Stratum's tiny bundled model: it shows the engine at work, not a large model's knowledge.
if not defined QUESTION goto demo_all
echo Question: %QUESTION%
"%PYTHON%" -m engine run --prompt "%QUESTION%" --reasoning-effort none --temperature 0 --max-tokens 200
set "STATUS=%errorlevel%"
if "%STATUS%"=="0" exit /b 0
exit /b %STATUS%
:demo_all
"%PYTHON%" -m engine demo
exit /b %errorlevel%

:test
"%PYTHON%" -m ruff check .
if errorlevel 1 exit /b 1
"%PYTHON%" -m mypy
if errorlevel 1 exit /b 1
"%PYTHON%" -m pytest -q -m "not slow and not desktop and not wine and not gpu"
if errorlevel 1 exit /b 1
if /i "%SLOW%"=="no" exit /b 0
"%PYTHON%" -m pytest -q -m "slow and not desktop and not wine and not gpu"
exit /b %errorlevel%

rem -- subroutines ------------------------------------------------------------------------------

:try_python
if defined FOUND exit /b 0
%* -c "%PROOF%" >>"%LOG%" 2>&1
if not errorlevel 1 set "FOUND=%*"
exit /b 0

:try_folder
if defined FOUND exit /b 0
if not exist %1 exit /b 0
%1 -c "%PROOF%" >>"%LOG%" 2>&1
if not errorlevel 1 set "FOUND=%1"
exit /b 0

:fingerprint
rem The requirements' own hash line would need a tool; size and time of the file do the work.
for %%F in ("requirements\%1.txt") do set "FINGERPRINT=%1 %%~zF %%~tF"
exit /b 0

:is_installed
call :fingerprint %1
if not exist "%INSTALLED%-%1" exit /b 1
set "KNOWN="
set /p KNOWN=<"%INSTALLED%-%1"
if "%KNOWN%"=="%FINGERPRINT%" exit /b 0
exit /b 1

:install_set
call :is_installed %1
if not errorlevel 1 exit /b 0
echo %~2
if not defined UV goto with_pip
"%UV%" pip install -q --python "%PYTHON%" --require-hashes -r "requirements\%1.txt" >>"%LOG%" 2>&1
if not errorlevel 1 goto installed_ok
goto not_installed
:with_pip
"%PYTHON%" -m pip install -q --no-input --require-hashes -r "requirements\%1.txt" >>"%LOG%" 2>&1
if not errorlevel 1 goto installed_ok
:not_installed
set "WHY=The packages could not be installed (network? free space?). Nothing is lost: start again to go on."
exit /b 1
:installed_ok
call :fingerprint %1
>"%INSTALLED%-%1" echo %FINGERPRINT%
exit /b 0

:fail
>&2 echo.
>&2 echo setup: %WHY%
if defined LOG >&2 echo Details: "%LOG%"
call :hold_window
exit /b 1

:hold_window
rem Started by a double-click the window would close before anyone could read what it says.
echo %cmdcmdline% | find /i "/c" >nul
if not errorlevel 1 pause
exit /b 0
