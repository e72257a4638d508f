@echo off
rem Installs Stratum into this folder (.venv) and starts the installer, or what is installed already.
rem Nothing outside the folder is changed before that; no administrator is needed. A second run skips
rem what is already there (kept in .venv\stratum-installed-*).
rem Delayed expansion stays off: an exclamation mark in the path would break it.
setlocal EnableExtensions DisableDelayedExpansion
title Stratum

set "MODE="
set "SLOW=no"
set "START=yes"
set "WINDOW=yes"
set "QUIET=no"
set "QUESTION="
set "PASSED="
set "CLICKED=no"
if "%~1"=="" set "CLICKED=yes"
:next_option
if "%~1"=="" goto options_done
if /i "%~1"=="--demo" (set "MODE=demo" & shift & goto next_option)
if /i "%~1"=="--test" (set "MODE=test" & shift & goto next_option)
if /i "%~1"=="--serve" (set "MODE=serve" & shift & goto next_option)
if /i "%~1"=="--slow" (set "SLOW=yes" & shift & goto next_option)
if /i "%~1"=="--no-start" (set "START=no" & shift & goto next_option)
if /i "%~1"=="--prompt" (set "QUESTION=%~2" & shift & shift & goto next_option)
if /i "%~1"=="--help" goto usage
if /i "%~1"=="-h" goto usage
if /i "%~1"=="--headless" goto pass_in_terminal
if /i "%~1"=="--yes" goto pass_one
if /i "%~1"=="--json" (set "QUIET=yes" & goto pass_in_terminal)
if /i "%~1"=="--check" (set "MODE=installer" & goto pass_in_terminal)
if /i "%~1"=="--calibrate" (set "MODE=installer" & goto pass_in_terminal)
if /i "%~1"=="--repair" (set "MODE=installer" & goto pass_in_terminal)
if /i "%~1"=="--roll-back" (set "MODE=installer" & goto pass_in_terminal)
if /i "%~1"=="--uninstall" (set "MODE=uninstall" & goto pass_in_terminal)
if /i "%~1"=="--care" (set "MODE=installer" & goto pass_one)
if /i "%~1"=="--move-data" (set "MODE=installer" & set "WINDOW=no" & goto pass_folder)
if /i "%~1"=="--model" goto pass_two
if /i "%~1"=="--data-dir" goto pass_folder
>&2 echo setup: unknown option %1. Type START-HERE.bat --help for the list.
exit /b 2
:pass_in_terminal
set "WINDOW=no"
:pass_one
set PASSED=%PASSED% %1
shift
goto next_option
:pass_two
if "%~2"=="" goto no_value
set PASSED=%PASSED% %1 %2
shift
shift
goto next_option
:pass_folder
if "%~2"=="" goto no_value
rem Taken from where the person is; a slash at its end would swallow the closing quote.
set "FOLDER=%~2"
if "%FOLDER:~1,1%"==":" goto folder_is_whole
if "%FOLDER:~0,1%"=="\" goto folder_is_whole
set "FOLDER=%CD%\%FOLDER%"
:folder_is_whole
if "%FOLDER:~-1%"=="\" set "FOLDER=%FOLDER%."
set PASSED=%PASSED% %1 "%FOLDER%"
shift
shift
goto next_option
:no_value
>&2 echo setup: %1 needs a value after it.
exit /b 2

:usage
echo usage: START-HERE.bat [MODE] [OPTIONS]
echo.
echo   (no mode)      the installer: looks at this PC, recommends a model, downloads it, starts it;
echo                  later starts begin with what is installed
echo   --check        say what this PC can run, and end (--json: for programs)
echo   --calibrate    measure the settings that are fastest on this PC
echo   --repair       verify everything that is installed, and fetch what is damaged
echo   --move-data DIR  move models, chats and their settings to another folder
echo   --roll-back    go back to the version before an update
echo   --care         the window to move, repair and go back
echo   --uninstall    remove Stratum (--yes: without questions; models and chats are kept)
echo   --serve        start the server with the bundled model
echo   --demo         show the bundled model at work: a meaning, a copy, a tool call
echo   --test         install with the tools for development, check and test (--slow: slow tests too)
echo.
echo   --headless     no window: the installer in the terminal
echo   --yes          no questions: take what is recommended
echo   --model ID     install this model
echo   --data-dir DIR where models, chats and settings of models go
echo   --json         one JSON object on standard output, and nothing else there
echo   --no-start     install only
echo   --prompt TEXT  with --demo: ask this one question instead
exit /b 0

:options_done
set "ROOT=%~dp0"
set "VENV=%ROOT%.venv"
set "PYTHON=%VENV%\Scripts\python.exe"
set "INSTALLED=%VENV%\stratum-installed"
set "MADE=%VENV%\stratum-made"
set "PYTHONUTF8=1"
set "PYTHONHOME="
set "PYTHONPATH="
if defined MODE goto mode_chosen
if defined PASSED (set "MODE=installer" & goto mode_chosen)
if /i "%START%"=="no" (set "MODE=packages" & goto mode_chosen)
set "MODE=installer"
:mode_chosen
if not "%MODE%"=="installer" set "WINDOW=no"

if "%ROOT:~0,2%"=="\\" (
  set "WHY=Stratum cannot run from a network folder. Copy this folder to a drive of this PC, such as C:\Stratum, and start again."
  goto fail
)
if not exist "%ROOT%pyproject.toml" goto packed
if not exist "%ROOT%requirements\base.txt" goto packed
goto unpacked
:packed
set "WHY=Some files are missing here: this looks like the inside of a zip. Extract the whole zip to a folder first, then start START-HERE.bat there."
goto fail
:unpacked
cd /d "%ROOT%"
rem A second double-click starts what is installed at once.
if /i "%WINDOW%"=="no" goto prepare
if not exist "%PYTHON%" goto prepare
call :is_installed app
if not errorlevel 1 goto open_window

:prepare
if "%ROOT:~0,100%"=="%ROOT%" goto short_enough
set "WHY=The path of this folder is too long for Windows. Move the folder to a short place, such as C:\Stratum, and start again."
goto fail
:short_enough
if not exist ".state" mkdir ".state" 2>nul
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
set "UV_CONSTRAINT="
set "PIP_DISABLE_PIP_VERSION_CHECK=1"
set "UV_PYTHON_INSTALL_DIR=%ROOT%.state\python"
set "UV_CACHE_DIR=%ROOT%.state\uv-cache"
set "UV_PYTHON_INSTALL_REGISTRY=0"
set "UV_PYTHON_INSTALL_BIN=0"
set "UV_SYSTEM_CERTS=1"
set "UV_NO_CONFIG=1"
rem The uv.exe of the wheel that tools/make_release.py packs.
set "UV_SHA256=7e6349bc24cfc7249f892c41298e4371826a19008c3cbcfe13eacd08ac398470"
set "PROOF=import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))"

rem uv: the copy that a release brings, else one on the PATH, else none (then pip does the work).
set "UV="
call :check_uv
if not errorlevel 1 goto uv_is_right
set "WHY=bin\uv.exe is not the file that this release was made with. Extract the zip once more, to an empty folder; if it happens again, a virus scanner has changed it."
goto fail
:uv_is_right
call :find_uv

rem One whose making was interrupted has a Python and no pip: it is made anew.
if exist "%MADE%" goto look_at_venv
if exist "%INSTALLED%-base" goto look_at_venv
if exist "%INSTALLED%-app" goto look_at_venv
if exist "%INSTALLED%-dev" goto look_at_venv
goto make_venv
:look_at_venv
if not exist "%PYTHON%" goto make_venv
"%PYTHON%" -c "%PROOF%" >>"%LOG%" 2>&1
if not errorlevel 1 goto have_venv
:make_venv
if exist "%VENV%" rmdir /s /q "%VENV%"
if defined UV call :uv_python
if exist "%MADE%" goto have_venv

rem A Python proves itself by running ("call", because it may be a batch file of a version manager):
rem the Store's alias is found by "where" and yet is none.
set "FOUND="
call :try_python py -3.12
call :try_python py -3.13
call :try_python py -3.11
call :try_python python
for %%V in (312 313 311) do call :try_folder "%LocalAppData%\Programs\Python\Python%%V\python.exe"
for %%V in (312 313 311) do call :try_folder "%ProgramFiles%\Python%%V\python.exe"
if not defined FOUND goto fetch_uv
call :say Creating .venv ...
call %FOUND% -m venv "%VENV%" >>"%LOG%" 2>&1
if not errorlevel 1 goto have_venv
set "WHY=Python could not create the folder .venv (free space? write permission?)."
goto fail

:fetch_uv
rem No Python here: uv brings one, for this folder alone. It touches neither PATH nor registry.
if defined UV goto no_python
call :say No Python here: fetching one for this folder ...
set "UV_UNMANAGED_INSTALL=%ROOT%.state\uv"
powershell -NoProfile -ExecutionPolicy Bypass -Command "irm https://astral.sh/uv/0.13.9/install.ps1 | iex" >>"%LOG%" 2>&1
call :find_uv
if defined UV call :uv_python
if exist "%MADE%" goto have_venv
:no_python
set "WHY=Stratum needs Python 3.11, 3.12 or 3.13, found none, and could not fetch one (network?). Start again later, or type this in a terminal and start again: winget install --id Python.Python.3.12 --scope user"
goto fail

:have_venv
type nul > "%MADE%"
if /i "%MODE%"=="test" goto install_dev
if /i "%WINDOW%"=="yes" goto install_app
call :is_installed dev
if not errorlevel 1 goto ready
call :is_installed app
if not errorlevel 1 goto ready
call :install_set base "Installing the engine (about 250 MB on disk) ..."
if errorlevel 1 goto fail
goto ready
:install_app
call :install_set app "Installing the engine and its window (about 500 MB on disk; a minute or a few) ..."
if errorlevel 1 goto fail
goto ready
:install_dev
call :install_set dev "Installing the engine and the tools for development ..."
if errorlevel 1 goto fail

:ready
rem The card's packages, once the engine has operations for it.
if not exist "engine\ops\cuda.py" goto no_card
if not exist "%SystemRoot%\System32\nvidia-smi.exe" goto no_card
call :install_set cuda12 "Installing the packages for the graphics card ..."
if errorlevel 1 call :say They could not be installed; Stratum uses the processor until then.
:no_card
if "%MODE%"=="packages" goto only_packages
if "%MODE%"=="installer" goto installer
if "%MODE%"=="uninstall" goto uninstall
if /i "%START%"=="no" goto only_packages
if /i "%MODE%"=="demo" goto demo
if /i "%MODE%"=="test" goto test
"%PYTHON%" -m engine serve
set "STATUS=%errorlevel%"
call :hold_window
exit /b %STATUS%
:only_packages
echo Installed. Start Stratum with: START-HERE.bat
exit /b 0

:installer
if /i "%WINDOW%"=="yes" goto open_window
if /i "%START%"=="no" set PASSED=%PASSED% --no-start
"%PYTHON%" -m installer%PASSED%
exit /b %errorlevel%
:open_window
if /i "%START%"=="no" set PASSED=%PASSED% --no-start
start "" "%VENV%\Scripts\pythonw.exe" -m installer%PASSED%
exit /b 0

:uninstall
"%PYTHON%" -m installer%PASSED%
set "STATUS=%errorlevel%"
if not "%STATUS%"=="0" exit /b %STATUS%
if not exist "%ROOT%.state\uninstalled" exit /b 0
if exist "%ROOT%release.json" goto remove_release
rmdir /s /q "%VENV%"
rmdir /s /q "%ROOT%.state"
echo The program itself is still in "%ROOT%"; delete that folder.
exit /b 0
:remove_release
rem One line, because cmd reads a batch file line by line and this one is about to go.
cd /d "%ROOT%.." & rmdir /s /q "%VENV%" & rmdir /s /q "%ROOT%.state" & del /q "%ROOT%release.json" "%ROOT%setup.sh" & del /q "%~f0" & rmdir "%ROOT%" 2>nul & exit /b 0

:demo
echo This is Stratum's tiny bundled model: it shows the engine at work, not a large model's knowledge.
if not defined QUESTION goto demo_all
echo Question: %QUESTION%
"%PYTHON%" -m engine run --prompt "%QUESTION%" --reasoning-effort none --temperature 0 --max-tokens 200
exit /b %errorlevel%
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

:say
rem Where standard output belongs to a program, progress goes to standard error.
if "%QUIET%"=="yes" goto say_quietly
echo %*
exit /b 0
:say_quietly
>&2 echo %*
exit /b 0

:check_uv
rem Only a release brings one. What certutil says around the sum is in the language of the system; the
rem sum is its second line, on older systems with spaces. Where it says nothing, nothing is compared.
if not exist "bin\uv.exe" exit /b 0
if not defined CERTUTIL set "CERTUTIL=%SystemRoot%\System32\certutil.exe"
set "SUM="
for /f "skip=1 delims=" %%H in ('%CERTUTIL% -hashfile bin\uv.exe SHA256 2^>nul') do if not defined SUM set "SUM=%%H"
if not defined SUM exit /b 0
set "SUM=%SUM: =%"
rem A sum has 64 letters; anything else is a sentence about why there is none.
if "%SUM%"=="%SUM:~0,63%" exit /b 0
if not "%SUM%"=="%SUM:~0,64%" exit /b 0
if /i "%SUM%"=="%UV_SHA256%" exit /b 0
exit /b 1

:find_uv
if exist "%ROOT%bin\uv.exe" set "UV=%ROOT%bin\uv.exe"
if defined UV exit /b 0
if exist "%ROOT%.state\uv\uv.exe" set "UV=%ROOT%.state\uv\uv.exe"
if defined UV exit /b 0
call uv --version >nul 2>&1
if not errorlevel 1 set "UV=uv"
exit /b 0

:uv_python
call :say Preparing Python 3.12 ...
"%UV%" venv -q --seed --python 3.12 "%VENV%" >>"%LOG%" 2>&1
if errorlevel 1 goto uv_failed
if not exist "%PYTHON%" goto uv_failed
type nul > "%MADE%"
exit /b 0
:uv_failed
if exist "%VENV%" rmdir /s /q "%VENV%"
exit /b 0

:try_python
if defined FOUND exit /b 0
call %* -c "%PROOF%" >>"%LOG%" 2>&1
if not errorlevel 1 set "FOUND=%*"
exit /b 0

:try_folder
if defined FOUND exit /b 0
if not exist %1 exit /b 0
%1 -c "%PROOF%" >>"%LOG%" 2>&1
if not errorlevel 1 set FOUND=%1
exit /b 0

:fingerprint
rem The requirements' own hash line would need a tool; size and time of the file do the work.
set "FINGERPRINT="
for %%F in ("requirements\%1.txt") do set "FINGERPRINT=%1 %%~zF %%~tF"
exit /b 0

:is_installed
if not exist "%INSTALLED%-%1" exit /b 1
call :fingerprint %1
set "KNOWN="
set /p KNOWN=<"%INSTALLED%-%1"
if "%KNOWN%"=="%FINGERPRINT%" exit /b 0
exit /b 1

:install_set
call :is_installed %1
if not errorlevel 1 exit /b 0
call :say %~2
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
if "%CLICKED%"=="no" exit /b 0
echo %cmdcmdline% | find /i "/c" >nul
if not errorlevel 1 pause
exit /b 0
