# Removes what is in the way of the named files: an agent may have put a link, a file or a folder
# there, or what Python would import instead of that module. Touches nothing outside the workspace.
for name do
    rest=$name folder=
    while case $rest in */*) true;; *) false;; esac; do
        folder=$folder${rest%%/*} rest=${rest#*/}
        if [ -L "./$folder" ] || { [ -e "./$folder" ] && [ ! -d "./$folder" ]; }; then
            rm -f -- "./$folder" || exit
        fi
        folder=$folder/
    done
    rm -rf -- "./$name" || exit
    case $name in *.py)
        module=${name%.py}
        if [ -L "./$module" ]; then rm -f -- "./$module" || exit; fi
        rm -rf -- "./$module"/__init__.* "./$module".so "./$module".*.so || exit;;
    esac
done
